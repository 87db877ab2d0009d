use std::collections::HashMap;

use super::*;

const AUDIENCE: Audience = Audience { size: 20_000, sockets: 2_000, friends: 500 };
const TIMES: Times = Times {
    doors: Moment::from_secs(10),
    show: Moment::from_secs(60),
    timeout: Moment::from_secs(10),
    grace: Moment::from_secs(10),
};
const BEAT: Moment = Moment::from_millis(3_333);

const fn ms(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

/// Gateways that welcome all, a step later.
struct Played {
    scenario: Scenario,
    at: u64,
    steps: Vec<(Moment, Step)>,
    there: i64,
}

impl Played {
    fn new(seed: u64) -> Self {
        Self { scenario: Scenario::new(AUDIENCE, TIMES, 12, seed), at: 0, steps: Vec::new(), there: 0 }
    }

    fn until(&mut self, end: u64) -> &mut Self {
        while self.at < end {
            self.at += 50;
            let (now, mut steps) = (ms(self.at), Vec::new());
            self.scenario.step(now, &mut steps);
            for step in steps {
                self.steps.push((now, step));
                match step.deed {
                    Deed::Enter => {
                        self.there += i64::from(!self.scenario.of(step.viewer).returns);
                        assert!(self.scenario.welcome(step.viewer, BEAT, now + ms(20)));
                    }
                    Deed::Bye | Deed::Vanish => self.there -= 1,
                    Deed::Beat | Deed::Tunnel { .. } => {}
                    Deed::GiveUp => panic!("all were welcomed"),
                }
            }
        }
        self
    }
}

#[test]
fn the_doors_fill_the_room_and_then_it_breathes() {
    let mut played = Played::new(1);
    played.until(10_000);
    assert_eq!(played.there, 20_000);
    played.scenario.open(ms(10_000));
    let mut sizes = Vec::new();
    for second in 11..=70 {
        sizes.push(played.until(second * 1_000).there);
    }
    let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
    assert!((19_700..19_900).contains(&least) && (20_150..20_300).contains(&most), "{least} to {most}");
    let tally = played.scenario.tally();
    assert!(
        tally.arrivals > 1_900 && tally.goodbyes > 1_700 && tally.silent > 100 && tally.tunnels == 2_000,
        "{tally:?}"
    );
    assert_eq!((tally.cut, tally.unanswered), (0, 0));
}

#[test]
fn the_same_seed_gives_the_same_story_and_another_one_another() {
    let story = |seed| {
        let mut played = Played::new(seed);
        played.until(10_000).scenario.open(ms(10_000));
        std::mem::take(&mut played.until(15_000).steps)
    };
    assert!(story(1) == story(1) && story(1) != story(2));
}

#[test]
fn nobody_who_stays_is_silent_for_longer_than_timeout_and_grace() {
    let mut played = Played::new(3);
    played.until(10_000).scenario.open(ms(10_000));
    played.until(60_000);
    let mut heard: HashMap<u32, Moment> = HashMap::new();
    let mut longest = Moment::ZERO;
    for &(now, step) in &played.steps {
        match step.deed {
            Deed::Enter | Deed::Beat => {
                longest = longest.max(now.saturating_sub(heard.insert(step.viewer, now).unwrap_or(now)));
            }
            Deed::Bye | Deed::Vanish => drop(heard.remove(&step.viewer)),
            Deed::Tunnel { .. } | Deed::GiveUp => {}
        }
    }
    // Some were away for as long as tunnels are, and there is time left to find the way back.
    assert!(longest > ms(10_000) && longest < ms(17_000), "{longest:?}");
    // Whoever stays beats: nobody was forgotten.
    assert!(heard.values().all(|&last| last + ms(16_000) > ms(60_000)));
}

#[test]
fn the_viewers_of_a_dead_gateway_go_elsewhere_soon() {
    let mut played = Played::new(4);
    played.until(10_000).scenario.open(ms(10_000));
    played.until(20_000);
    let dead = 5;
    let crowd = played.scenario.gateway_died(dead, ms(20_000));
    let sockets: Vec<_> = (0..AUDIENCE.sockets).filter(|&viewer| played.scenario.of(viewer).gateway == dead).collect();
    let sockets: Vec<_> = sockets.into_iter().filter(|&viewer| played.scenario.cut(viewer, ms(20_000))).collect();
    assert!(crowd.len() > 1_000 && sockets.len() > 100, "{} and {}", crowd.len(), sockets.len());
    let before = played.steps.len();
    played.until(21_500);
    let after = &played.steps[before..];
    assert!(after.iter().all(|(_, step)| step.gateway != dead));
    for viewer in crowd.iter().chain(&sockets) {
        assert!(after.iter().any(|(_, step)| step.viewer == *viewer && step.deed == Deed::Enter), "{viewer}");
    }
    assert_eq!(played.scenario.tally().cut as usize, crowd.len() + sockets.len());
}

#[test]
fn who_is_not_welcomed_tries_again_and_a_welcome_that_nobody_waits_for_counts_nothing() {
    let one = Audience { size: 1, sockets: 0, friends: 0 };
    let mut scenario = Scenario::new(one, TIMES, 2, 1);
    let mut steps = Vec::new();
    scenario.step(ms(10_000), &mut steps);
    scenario.step(ms(26_000), &mut steps);
    let deeds: Vec<_> = steps.iter().map(|step| step.deed).collect();
    assert_eq!(deeds, [Deed::Enter, Deed::GiveUp, Deed::Enter]);
    assert_ne!(steps[0].gateway, steps[2].gateway);
    assert!(scenario.welcome(0, BEAT, ms(26_100)) && !scenario.welcome(0, BEAT, ms(26_100)));
    assert_eq!(scenario.entering(), 0);
}

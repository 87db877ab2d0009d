//! Who takes part. Viewers are numbers: first those with friends, then others with a socket each, then the crowd.

/// How many friends somebody watches.
pub const WATCHED: u32 = 8;
const EACH_WAY: u32 = WATCHED / 2;

/// Sizes of the audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audience {
    /// Viewers, about, once the doors are open.
    pub size: u32,
    /// Those of them with a real WebSocket each; the others share one socket a gateway.
    pub sockets: u32,
    /// Those of the sockets who share with friends and watch [`WATCHED`] of them.
    pub friends: u32,
}

impl Audience {
    /// Whether the viewer has a socket of their own.
    pub const fn has_socket(&self, viewer: u32) -> bool {
        viewer < self.sockets
    }

    /// Whether the viewer shares with friends and watches them.
    pub const fn has_friends(&self, viewer: u32) -> bool {
        viewer < self.friends
    }

    /// Whom the viewer watches; they watch back. Those with friends stand in a ring, and see four to each side.
    pub fn friends_of(&self, viewer: u32) -> impl Iterator<Item = u32> + use<> {
        let ring = if self.has_friends(viewer) { self.friends } else { 0 };
        (0..WATCHED)
            .filter(move |_| ring > WATCHED)
            .map(move |place| (viewer + ring + place + u32::from(place >= EACH_WAY) - EACH_WAY) % ring)
    }

    /// At which place of `friends_of(viewer)` somebody stands.
    pub fn place_of(&self, viewer: u32, friend: u32) -> Option<u32> {
        self.friends_of(viewer).zip(0..).find_map(|(other, place)| (other == friend).then_some(place))
    }
}

/// The viewer's user id.
pub fn user(viewer: u32) -> String {
    format!("v{viewer}")
}

/// Whose user id this is.
pub fn viewer(user: &str) -> Option<u32> {
    user.strip_prefix('v')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIENCE: Audience = Audience { size: 100, sockets: 40, friends: 20 };

    #[test]
    fn friends_watch_each_other() {
        for viewer in 0..AUDIENCE.friends {
            let friends: Vec<_> = AUDIENCE.friends_of(viewer).collect();
            assert_eq!(friends.len(), WATCHED as usize);
            for (place, &friend) in friends.iter().enumerate() {
                assert!(friend != viewer && AUDIENCE.has_friends(friend));
                assert!(AUDIENCE.friends_of(friend).any(|back| back == viewer));
                assert_eq!(AUDIENCE.place_of(viewer, friend), Some(place as u32));
            }
        }
        assert_eq!(AUDIENCE.friends_of(0).collect::<Vec<_>>(), [16, 17, 18, 19, 1, 2, 3, 4]);
        assert_eq!(AUDIENCE.friends_of(30).count(), 0);
        assert_eq!(AUDIENCE.place_of(0, 10), None);
    }

    #[test]
    fn users_are_named_by_their_numbers() {
        assert_eq!(viewer(&user(17)), Some(17));
        assert_eq!(viewer("asha"), None);
    }
}

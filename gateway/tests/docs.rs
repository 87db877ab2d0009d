//! What docs/gateway.md says is what the program takes.
#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::collections::BTreeSet;

use clap::CommandFactory;
use presence_gateway::settings::Settings;

const PAGE: &str = include_str!("../../docs/gateway.md");

#[test]
fn every_option_is_documented_with_its_default() {
    let mut options = BTreeSet::new();
    for option in Settings::command().get_arguments() {
        let Some(long) = option.get_long() else { continue };
        let environment = option.get_env().unwrap().to_str().unwrap();
        let default: Vec<_> = option.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
        let default = match default[..] {
            [] if long == "secret" => "none".to_owned(),
            [] | ["false"] => "off".to_owned(),
            _ => format!("`{}`", default.join(",")),
        };
        let row = format!("| `--{long}` | `{environment}` | {default} | ");
        assert!(PAGE.contains(&row), "not in docs/gateway.md: {row}");
        options.insert(format!("--{long}"));
    }
    for row in PAGE.lines().filter(|line| line.starts_with("| `--")) {
        let option = row.split('`').nth(1).unwrap();
        assert!(options.contains(option), "docs/gateway.md tells of {option}, which is no option");
    }
}

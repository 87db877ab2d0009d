//! The module's INFO for Prometheus: every number of it, under its own name.

use std::collections::BTreeMap;
use std::fmt::Write;

use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{cmd, FromRedisValue, RedisResult};

use super::Line;

/// In the text form of OpenMetrics; in a cluster the primaries are told apart by a label.
///
/// # Errors
/// Those of the line and of the server.
pub async fn info(line: &Line) -> RedisResult<String> {
    let mut info = cmd("INFO");
    info.arg("presence");
    let nodes = match line.clone() {
        Line::One(_) => vec![(String::new(), String::from_redis_value(line.command(&info).await?)?)],
        Line::Cluster(mut cluster) => {
            let route = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
            Vec::<(String, String)>::from_redis_value(cluster.route_command(info, route).await?)?
        }
    };
    Ok(text(&nodes))
}

fn text(nodes: &[(String, String)]) -> String {
    let mut samples: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (node, info) in nodes {
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            if value.parse::<f64>().is_ok() {
                samples.entry(name).or_default().push((node, value));
            }
        }
    }
    let mut text = String::new();
    for (name, of_nodes) in samples {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# TYPE {name} unknown");
        for (node, value) in of_nodes {
            let _ = match node {
                "" => writeln!(text, "{name} {value}"),
                node => writeln!(text, "{name}{{node=\"{node}\"}} {value}"),
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_by_node_and_words_are_not() {
        let of = |rooms: u32| format!("# presence\r\npresence_rooms:{rooms}\r\npresence_state:ok\r\n");
        assert_eq!(text(&[(String::new(), of(3))]), "# TYPE presence_rooms unknown\npresence_rooms 3\n");
        assert_eq!(
            text(&[("a:1".into(), of(1)), ("b:2".into(), of(2))]),
            "# TYPE presence_rooms unknown\npresence_rooms{node=\"a:1\"} 1\npresence_rooms{node=\"b:2\"} 2\n"
        );
    }
}

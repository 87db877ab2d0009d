//! The rounded count that untrusted clients may see: 2,358 becomes `2.3k`.

/// Rounds down, so that a badge never overstates: `999`, `1k`, `1.2k`, `12k`, `999k`, `1.2M`.
pub fn badge(count: u64) -> String {
    let (unit, suffix) = match count {
        0..=999 => return count.to_string(),
        1_000..=999_999 => (1_000, 'k'),
        _ => (1_000_000, 'M'),
    };
    let (whole, tenth) = (count / unit, count % unit / (unit / 10));
    if whole >= 10 || tenth == 0 {
        format!("{whole}{suffix}")
    } else {
        format!("{whole}.{tenth}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::badge;

    #[test]
    fn rounds_down_and_drops_empty_decimals() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1k"),
            (1_099, "1k"),
            (1_100, "1.1k"),
            (2_341, "2.3k"),
            (2_358, "2.3k"),
            (9_999, "9.9k"),
            (10_000, "10k"),
            (12_999, "12k"),
            (200_000, "200k"),
            (999_999, "999k"),
            (1_000_000, "1M"),
            (1_250_000, "1.2M"),
            (10_900_000, "10M"),
        ];
        for (count, text) in cases {
            assert_eq!(badge(count), text, "{count}");
        }
    }
}

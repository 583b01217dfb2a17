//! The promises that hold for any text in the place of a setting: checked by `fuzz/` and by the tests here.
//!
//! Takes any bytes and panics where a promise is broken; what is refused is fine. Built for tests
//! and for fuzzing only.

use std::path::Path;
use std::time::Duration;

use sherd_core::limits::NODES_MAX;

use super::credentials::RootPairs;
use super::limits::VOLUMES_MAX;
use super::nodes;
use super::settings::Settings;
use super::volumes::expand;
use sherd_store::machine::quantity::{ByteSize, Period};

/// One text, taken for everything that a setting or a file of settings can be.
pub fn setting_text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    settings(text);
    quantities(text);
    if let Ok(paths) = expand(&[text.to_owned()]) {
        assert!((1..=VOLUMES_MAX).contains(&paths.len()));
        assert!(paths.iter().all(|path| path.is_absolute()));
        if !text.contains('{') {
            assert_eq!(paths, [Path::new(text)]);
        }
    }
    if let Ok(nodes) = nodes::expand(&[text.to_owned()]) {
        assert!((1..=NODES_MAX).contains(&nodes.len()));
        // Each node of an expansion can be written by itself.
        let each: Vec<_> = nodes.iter().map(|node| format!("{}@{}", node.name, node.address)).collect();
        assert_eq!(nodes::expand(&each).ok(), Some(nodes));
    }
    if let Ok(pairs) = RootPairs::parse(text, Path::new("credentials.env")) {
        assert!(
            pairs.secondary.as_ref().is_none_or(|other| other.access_key_id != pairs.first.access_key_id)
        );
        assert_eq!(RootPairs::parse(&pairs.lines(), Path::new("again")).ok(), Some(pairs));
    }
}

fn settings(text: &str) {
    let Ok(settings) = toml::from_str::<Settings>(text) else { return };
    // A setting that is given is not overruled by one that is not.
    assert_eq!(settings.clone().or(Settings::default()), settings);
    assert_eq!(Settings::default().or(settings.clone()), settings);
}

fn quantities(text: &str) {
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
    if let Ok(period) = text.parse::<Period>() {
        // Longer ones are refused wherever a period is asked for.
        if period.0 <= Duration::from_hours(365 * 24) {
            assert_eq!(period.to_string().parse(), Ok(period));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_seed_keeps_its_promise() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/node_text");
        for entry in std::fs::read_dir(folder).expect("every target has seeds") {
            let seed = std::fs::read(entry.expect("readable").path()).expect("readable");
            setting_text(seed.get(1..).unwrap_or_default());
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_promise(text in "\\PC{0,40}", nodes in "n(\\{[0-9]{1,3}\\.\\.\\.[0-9]{1,3}\\})?@h(\\{[0-9]{1,3}\\.\\.\\.[0-9]{1,3}\\})?:9", pattern in "/[a-z]{0,3}(\\{[0-9]{1,4}\\.\\.\\.[0-9]{1,4}\\}){0,3}") {
            setting_text(text.as_bytes());
            setting_text(pattern.as_bytes());
            setting_text(nodes.as_bytes());
        }

        #[test]
        fn any_quantity_prints_and_reads_back(number in 0..u64::MAX, unit in "KiB|MiB|GB|ms|s|m|h|days") {
            setting_text(format!("{number}{unit}").as_bytes());
        }
    }
}

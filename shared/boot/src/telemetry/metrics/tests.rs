use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(path).unwrap()
}

fn names() -> BTreeSet<String> {
    METRICS
        .iter()
        .map(|metric| metric.name.to_owned())
        .collect()
}

/// All words in `text` that begin like the name of a metric.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| word.starts_with("cairn_"));
    words.map(str::to_owned).collect()
}

#[test]
fn every_name_has_its_row() {
    let source = read("../rpc/src/metrics.rs");
    let quoted = source.split('"').skip(1).step_by(2);
    let constants: BTreeSet<String> = quoted
        .filter(|text| text.starts_with("cairn_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(constants, names());
    assert_eq!(names().len(), METRICS.len());
}

#[test]
fn names_say_what_they_are() {
    for metric in METRICS {
        let name = metric.name;
        let goes_up = matches!(metric.kind, MetricKind::Counter | MetricKind::Amount);
        assert_eq!(name.ends_with("_total"), goes_up, "{name}");
        let MetricKind::Seconds(buckets) = metric.kind else {
            assert!(!name.ends_with("_seconds"), "{name}");
            continue;
        };
        assert!(name.ends_with("_seconds"), "{name}");
        assert!(buckets.is_sorted_by(|a, b| a < b), "{name}");
        assert!(
            buckets[0] >= 0.000_01 && buckets[buckets.len() - 1] <= 300.0,
            "{name}"
        );
    }
}

#[test]
fn the_dashboard_shows_these_metrics_and_no_others() {
    let dashboard: Value = serde_json::from_str(&read("../../deploy/otel/dashboard.json")).unwrap();
    let mut shown = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            for word in words(query) {
                let word = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| word.strip_suffix(end))
                    .unwrap_or(&word);
                shown.insert(word.to_owned());
            }
            labels_are_those_of_the_metric(query);
        }
    }
    assert_eq!(shown, names());
}

/// What a query groups by exists.
fn labels_are_those_of_the_metric(query: &str) {
    let Some((_, rest)) = query.split_once("by (") else {
        return;
    };
    let labels = rest.split(')').next().unwrap();
    let metric = METRICS.iter().find(|metric| query.contains(metric.name));
    let metric = metric.unwrap();
    for label in labels.split(',').map(str::trim) {
        let is_known = metric.labels.contains(&label) || ["le", "instance"].contains(&label);
        assert!(is_known, "{label} in {query}");
    }
}

#[test]
fn the_table_of_the_documentation_names_every_metric() {
    let text = read("../../deploy/otel/README.md");
    for metric in METRICS {
        let name = metric.name.strip_prefix("cairn_").unwrap();
        assert!(text.contains(&format!("`{name}`")), "{name} is missing");
    }
}

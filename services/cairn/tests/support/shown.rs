//! Snapshots of what commands print, without what differs from one run to the next.

use cairn_testkit::{Output, Site};
use insta::Settings;
use std::fs;

/// Replaced in each text, in this order. A command that names its server is shown without it.
const REPLACED: [(&str, &str); 8] = [
    (r" --server http://127\.0\.0\.1:\d{4,5}\b", ""),
    (r"\b127\.0\.0\.1:\d{5}\b", "<address>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
    (r"\b\d\d:\d\d:\d\d\b", "<time>"),
    (r"\b\d+ min \d+ s\b|\b\d+(?:\.\d+)? m?s\b", "<span>"),
    (r"\b[0-9a-f]{16,64}\b", "<digest>"),
    (r"\bs-[0-9a-z]{8,}\b", "<session>"),
    (r"\b\d+ \+ \d+ tokens\b|\b\d+ tokens\b", "<tokens>"),
];

/// Settings for snapshots of what is printed in this site.
pub(crate) fn settings(site: &Site) -> Settings {
    let folder = fs::canonicalize(site.path()).expect("a folder");
    let folder = folder.display().to_string().replace('.', r"\.");
    let mut settings = Settings::clone_current();
    settings.set_omit_expression(true);
    settings.add_filter(&folder, "<folder>");
    for (pattern, replacement) in REPLACED {
        settings.add_filter(pattern, replacement);
    }
    settings
}

/// What a command said that failed with this code, without its log.
pub(crate) fn error(output: &Output, code: i32) -> String {
    assert_eq!(output.code, Some(code), "{output:?}");
    assert!(!output.err.contains("panicked"), "{output:?}");
    let lines: Vec<_> = output.err.lines().collect();
    let error = lines.iter().position(|line| line.starts_with("cairn: "));
    let error = error.unwrap_or_else(|| panic!("no error: {output:?}"));
    lines[error..].join("\n")
}

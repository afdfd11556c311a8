//! Snapshots of what commands print, without what differs from one run to the next.

use cairn_testkit::{Output, Site};
use insta::Settings;
use std::fs;

/// Replaced in each text, in this order. A command that names its server is shown without it.
const REPLACED: [(&str, &str); 7] = [
    (r" --server http://127\.0\.0\.1:\d{4,5}\b", ""),
    (r"\b127\.0\.0\.1:\d{5}\b", "<address>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
    (r"\b\d\d:\d\d:\d\d\b", "<time>"),
    // What a plan's change saves, with the time and the tokens of a run.
    (
        r"(?m)^(saved .*), \d+ \+ \d+ tokens, .*$",
        "$1, <tokens>, <span>",
    ),
    (r"\b[0-9a-f]{16,64}\b", "<digest>"),
    (r"\bs-[0-9a-z]{8,}\b", "<session>"),
];

/// A pattern for exactly this text.
fn escape(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter.is_alphanumeric() {
        true => letter.to_string(),
        false => format!(r"\{letter}"),
    });
    letters.collect()
}

/// Settings for snapshots of what is printed in this site.
pub(crate) fn settings(site: &Site) -> Settings {
    let folder = fs::canonicalize(site.path()).expect("a folder");
    let folder = escape(&folder.display().to_string());
    let mut settings = Settings::clone_current();
    settings.set_omit_expression(true);
    settings.add_filter(&folder, "<folder>");
    let store = site.beside_store("cairn").with_file_name("");
    settings.add_filter(&escape(&store.display().to_string()), "<store>/");
    for (pattern, replacement) in REPLACED {
        settings.add_filter(pattern, replacement);
    }
    settings
}

/// The error message of a command that failed with this code, without log lines.
pub(crate) fn error(output: &Output, code: i32) -> String {
    assert_eq!(output.code, Some(code), "{output:?}");
    assert!(!output.err.contains("panicked"), "{output:?}");
    let lines: Vec<_> = output.err.lines().collect();
    let error = lines.iter().position(|line| line.starts_with("cairn: "));
    let error = error.unwrap_or_else(|| panic!("no error: {output:?}"));
    lines[error..].join("\n")
}

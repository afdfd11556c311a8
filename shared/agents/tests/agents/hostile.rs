//! Reading any text ends soon, takes little memory, and never panics.

use allocation_counter::measure;
use cairn_agents::document::{MAX_FILE, decode};
use cairn_agents::{agent, instructions, skill};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Far above what any text takes, and far below what a bomb would.
const MOST_TIME: Duration = Duration::from_secs(20);
const MOST_BYTES: u64 = 64 * 1024 * 1024;

fn read_all(text: &str) {
    let agent = agent::parse(".claude/agents/a.md", text);
    if let Ok(parsed) = &agent {
        black_box(parsed.value.digest());
    }
    let _ = black_box(agent.map_err(|error| error.to_string()));
    let _ = black_box(skill::parse("skills/a/SKILL.md", text).map_err(|error| error.to_string()));
    let _ = black_box(instructions::parse("AGENTS.md", text));
}

/// Pieces that mean something in front matter.
const PIECES: &[&str] = &[
    "---\n",
    "...\n",
    "\n",
    "\r\n",
    " ",
    "  ",
    "\t",
    ": ",
    ":",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "#",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "<<: ",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "\\",
    "%YAML 1.2\n",
    "@",
    "`",
    "\u{feff}",
    "\0",
    "é",
    "name",
    "description",
    "tools",
    "permission",
    "model",
    "cairn",
    "metadata",
    "*",
    "deny",
    "Bash(git:*)",
    "0.5",
];

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2048)
    })]

    #[test]
    fn any_text_gives_an_answer(text in ".{0,300}") {
        read_all(&text);
        read_all(&format!("---\n{text}\n---\n{text}"));
    }

    #[test]
    fn pieces_of_front_matter_in_any_order_give_an_answer(pieces in vec(select(PIECES), 0..60)) {
        let text = pieces.concat();
        read_all(&text);
        read_all(&format!("---\n{text}\n---\nB"));
        read_all(&format!("---\ntools:{text}\n---\nB"));
        read_all(&format!("---\npermission:\n  bash: {text}\n---\nB"));
    }

    #[test]
    fn any_bytes_are_a_text_or_an_error(bytes in vec(any::<u8>(), 0..300)) {
        let decoded = decode("a.md", &bytes);
        prop_assert_eq!(decoded.is_ok(), std::str::from_utf8(&bytes).is_ok() && !is_utf16(&bytes));
    }

    /// What a file says twice is what it says: reading is a function of the text.
    #[test]
    fn a_text_has_one_meaning(pieces in vec(select(PIECES), 0..40)) {
        let text = format!("---\nname: a\n{}\n---\nB", pieces.concat());
        prop_assert_eq!(agent::parse("a.md", &text), agent::parse("a.md", &text));
    }
}

fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// A file of the greatest size with a pattern again and again, after a beginning.
fn full(beginning: &str, pattern: &str) -> String {
    let (before, after) = (format!("---\n{beginning}"), "\n---\nB");
    let room = MAX_FILE - before.len() - after.len();
    format!("{before}{}{after}", pattern.repeat(room / pattern.len()))
}

/// Nine levels, each of nine aliases of the level before.
fn bomb() -> String {
    let mut text = "---\na0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text + "---\nB"
}

/// The beginning of front matter, and what follows it again and again.
const PATTERNS: &[(&str, &str)] = &[
    ("tools: [", "a,"),
    ("tools: [", "["),
    ("tools: ", "{"),
    ("tools: ", "a "),
    ("tools: ", "Bash("),
    ("tools: ", "a(b) "),
    ("tools:\n", "- a*{b,c}\n"),
    ("", "a: 1\n"),
    ("", "ab: b: c\n"),
    ("description: a: b\n", "user: x\n"),
    ("description: a: b\n", "modle\n"),
    ("description: ", "a: "),
    ("description: |\n", " a\n"),
    ("description: \"", "\\\\n"),
    ("permission:\n", " ? \n"),
    ("", "? "),
    ("", "- "),
    ("", "a:\n "),
    ("x: ", "&a "),
    ("x: ", "!a!b "),
    ("%TAG ! tag:x,2000:\n", "%TAG ! tag:x\n"),
    ("x: >\n", "\n"),
    ("x: '", "''"),
    ("model: [", "'a', "),
    ("metadata: {", "a: {"),
];

#[test]
fn large_texts_take_bounded_time_and_memory() {
    let mut texts: Vec<String> = PIECES.iter().map(|piece| full("", piece)).collect();
    let repeated = PATTERNS
        .iter()
        .map(|(beginning, pattern)| full(beginning, pattern));
    texts.extend(repeated);
    let unknown: String = (0..4000).map(|at| format!("f{at}: 1\n")).collect();
    texts.push(format!("---\n{unknown}---\nB"));
    let tools: String = (0..3000).map(|at| format!(" t{at}*: ask\n")).collect();
    texts.push(format!("---\npermission:\n{tools}---\nB"));
    texts.push(bomb());
    for text in texts {
        let shown: String = text.chars().take(40).collect();
        let start = Instant::now();
        let memory = measure(|| read_all(&text));
        let time = start.elapsed();
        assert!(time < MOST_TIME, "{shown:?} took {time:?}");
        assert!(
            memory.bytes_max < MOST_BYTES,
            "{shown:?} took {} bytes",
            memory.bytes_max
        );
    }
}

#[test]
fn a_bomb_is_refused_by_its_first_anchor() {
    let error = agent::parse("a.md", &bomb()).unwrap_err().to_string();
    assert!(error.starts_with("a.md:2: anchors and aliases"), "{error}");
}

#[test]
fn no_file_makes_an_error_long() {
    let long = "x".repeat(10_000);
    for front in [
        format!("mode: {long}"),
        format!("{long}: 1\nmode: x"),
        format!("tools: {long}"),
        format!("permission: {{{long}: 5}}"),
        format!("cairn: {{{long}: 5, budgets: {{tokens: {long}}}}}"),
        format!("description: {long}"),
    ] {
        let error = agent::parse("a.md", &format!("---\n{front}\n---\nB"))
            .unwrap_err()
            .to_string();
        assert!(error.len() < 1000, "{} bytes", error.len());
    }
    let text = format!("---\nmodel:\n{}---\nB", "- true\n".repeat(2000));
    let error = agent::parse("a.md", &text).unwrap_err();
    assert_eq!(error.faults.len(), 101);
    assert!(error.to_string().ends_with("and 1900 more"), "{error}");
}

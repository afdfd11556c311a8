//! How texts and names read: short sentences, in the words of the field.

use super::repository::{code, files, root};
use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

/// Most words of a sentence. The percentage of longer sentences stays below [`LONG_PERCENT`].
const MOST_WORDS: usize = 25;
const LONG_PERCENT: usize = 5;

/// Words for which the field has another one. Their forms on -s, -es, -ed and -ing count, too.
#[rustfmt::skip]
const OLD_WORDS: [&str; 15] = [
    "set aside", "unsure", "wish", "vouch", "witness", "teller", "lookout", "heed", "insist",
    "meanwhile", "rehearsal", "reckon", "for ever", "goes on", "whoever",
];

/// Words that name no data.
const OLD_IN_NAMES: [&str; 3] = ["told", "heard", "awake"];

type Words = Vec<(usize, String)>;

#[test]
fn most_sentences_are_short() {
    let mut faults = Vec::new();
    let pages = ["README.md", "ARCHITECTURE.md"].map(|name| (name, vec![page(name)]));
    let contracts = files("proto", "proto").into_iter().map(|(path, text)| {
        let comment = |line: &str| line.trim_start().strip_prefix("//").map(str::to_owned);
        let comments = text.lines().map(|line| comment(line).unwrap_or_default());
        (path, comments.collect::<Vec<_>>().join("\n"))
    });
    for (name, texts) in pages.into_iter().chain([("proto", contracts.collect())]) {
        let mut found: Vec<_> = texts.iter().flat_map(sentences).collect();
        found.sort_by_key(|(_, text)| Reverse(length(text)));
        let all = found.len();
        found.retain(|(_, text)| length(text) > MOST_WORDS);
        let long = found.len();
        println!("{name}: {long} of {all} sentences have more than {MOST_WORDS} words");
        if long * 100 >= all * LONG_PERCENT {
            faults.push(format!(
                "{name}: {long} of {all} sentences are too long, such as"
            ));
            let fault =
                |(at, text): &(String, String)| format!("{at}: {} words: {text}", length(text));
            faults.extend(found.iter().take(20).map(fault));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn page(name: &str) -> (PathBuf, String) {
    let path = root().join(name);
    (path.clone(), fs::read_to_string(path).expect("a page"))
}

fn place(path: &Path) -> String {
    let below = path.strip_prefix(root()).expect("below the root");
    below.display().to_string()
}

fn length(sentence: &str) -> usize {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    sentence.split_whitespace().filter(is_word).count()
}

/// The sentences of a text with their places. A sentence ends at a full stop, `!` or `?` before a word
/// that does not begin with a small letter.
fn sentences((path, text): &(PathBuf, String)) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for block in blocks(text) {
        let (mut sentence, mut words) = (String::new(), block.iter().peekable());
        let mut begin = 0;
        while let Some((line, word)) = words.next() {
            begin = if sentence.is_empty() { *line } else { begin };
            sentence = sentence + word + " ";
            let next = words
                .peek()
                .map(|(_, next)| next.trim_start_matches(['"', '*', '(']));
            let is_begin = next.is_none_or(|next| !next.starts_with(char::is_lowercase));
            if next.is_none() || is_begin && ends_sentence(word) {
                found.push((
                    format!("{}:{begin}", place(path)),
                    std::mem::take(&mut sentence),
                ));
            }
        }
    }
    found.retain(|(_, text)| length(text) > 0);
    found
}

fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '\'', '*', ')', ']', '`']);
    word.ends_with(['.', '!', '?']) && !["e.g.", "i.e."].contains(&word)
}

/// The words of each paragraph, list item and table cell, with their lines. Code blocks, separators of
/// tables and targets of links are left out.
fn blocks(text: &str) -> Vec<Words> {
    let (mut blocks, mut is_code) = (vec![Words::new()], false);
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_start_matches(['>', ' ']);
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let first = line.split(' ').next().unwrap_or_default();
        let is_numbered = first.ends_with('.') && first.parse::<f32>().is_ok();
        let is_alone = line.starts_with(['|', '#']);
        if is_code || is_alone || is_numbered || ["", "-", "*"].contains(&first) {
            blocks.push(Words::new());
        }
        if is_code || is_fence {
            continue;
        }
        let line = without_targets(line);
        for cell in line.split(if is_alone { '|' } else { '\n' }) {
            let words = cell.split_whitespace().map(str::to_owned);
            let block = blocks.last_mut().expect("a block");
            block.extend(words.map(|word| (number, word)));
            if is_alone {
                blocks.push(Words::new());
            }
        }
    }
    blocks
}

/// A line whose links have only their texts.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let after = |part: &'_ str| part.split_once(')').unwrap_or_default().1.to_owned();
    parts.fold(first, |text, part| text + "]" + &after(part))
}

/// Prompts are guides as well: they speak to models, and people read and change them.
#[test]
fn texts_and_names_have_no_old_words() {
    let pages = ["README.md", "ARCHITECTURE.md"].map(page).to_vec();
    let guides = ["services", "deploy", "shared"].map(|folder| files(folder, "md"));
    let mut found = Vec::new();
    for (path, text) in [pages, guides.concat(), files("proto", "proto")].concat() {
        let words = old_words(&text, &OLD_WORDS).into_iter();
        found.extend(words.map(|(line, word)| format!("{}:{line}: {word}", place(&path))));
    }
    let code = code().into_iter().map(|(path, text)| (place(&path), text));
    for (path, text) in code.filter(|(path, _)| !path.ends_with("quick/language.rs")) {
        let words = old_words_of_code(&path, &text).into_iter();
        found.extend(words.map(|(line, word)| format!("{path}:{line}: {word}")));
    }
    assert!(found.is_empty(), "old words:\n{}", found.join("\n"));
}

/// The old words of names, except in memory, and of what people read: literals, and the doc comments
/// that are the help of commands. Literals of tests are left out.
fn old_words_of_code(path: &str, text: &str) -> Words {
    let is_help = path.starts_with("services/cairn/src") && text.contains("clap");
    let of_tests = ["/tests/", "/benches/", "tests.rs", "shared/testkit"];
    let is_test = of_tests.iter().any(|it| path.contains(it));
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let code_ends = if is_test { 0 } else { tests };
    let in_names = [&OLD_WORDS[..], &OLD_IN_NAMES].concat();
    let (mut found, mut at, mut line) = (Words::new(), 0, 0);
    while at < text.len() {
        let (kind, length) = next_part(&text[at..]);
        let part = &text[at..at + length];
        let old: &[&str] = match kind {
            Kind::Name if !path.starts_with("services/memory") => &in_names,
            Kind::Literal if at < code_ends => &OLD_WORDS,
            Kind::Doc if at < code_ends && is_help => &OLD_WORDS,
            _ => &[],
        };
        let words = old_words(part, old).into_iter();
        found.extend(words.map(|(within, word)| (line + within, word)));
        line += part.matches('\n').count();
        at += length;
    }
    found
}

enum Kind {
    Name,
    Literal,
    Doc,
    Other,
}

/// What a text of Rust begins with, and how long that is.
fn next_part(text: &str) -> (Kind, usize) {
    let through = |end: &str, from: usize| {
        let found = text.get(from..).and_then(|rest| rest.find(end));
        found.map_or(text.len(), |at| from + at + end.len())
    };
    let is_in_name = |c: char| c.is_alphanumeric() || c == '_';
    let name = text.find(|c| !is_in_name(c)).unwrap_or(text.len());
    let (prefix, rest) = text.split_at(name);
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let mut chars = text.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('/'), Some('/'), Some('/')) => (Kind::Doc, through("\n", 3)),
        (Some('/'), Some('/'), _) => (Kind::Other, through("\n", 2)),
        (Some('/'), Some('*'), _) => (Kind::Other, through("*/", 2)),
        _ if ["r", "br", "cr"].contains(&prefix) && rest[hashes..].starts_with('"') => {
            let end = format!("\"{}", "#".repeat(hashes));
            (Kind::Literal, through(&end, name + hashes + 1))
        }
        (Some('"'), ..) => {
            let mut is_escaped = true; // The quote that opens.
            let end = text.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            (Kind::Literal, end.map_or(text.len(), |end| end + 1))
        }
        (Some('\''), Some('\\'), _) => (Kind::Other, through("'", 3)),
        (Some('\''), Some(c), Some('\'')) => (Kind::Other, 2 + c.len_utf8()),
        (Some(c), ..) if is_in_name(c) => (Kind::Name, name),
        _ => {
            let is_other = |c: char| !is_in_name(c) && !['"', '\'', '/'].contains(&c);
            let rest = text.trim_start_matches(is_other);
            (Kind::Other, (text.len() - rest.len()).max(1))
        }
    }
}

/// The old words of a text with their lines. `setAside` and `SET_ASIDE` are two words.
fn old_words(text: &str, old: &[&str]) -> Words {
    let (mut words, mut word, mut line, mut after_small) = (Words::new(), String::new(), 1, false);
    for c in text.chars().chain([' ']) {
        if !word.is_empty() && (!c.is_alphabetic() || c.is_uppercase() && after_small) {
            words.push((line, std::mem::take(&mut word)));
        }
        word.extend(c.to_lowercase().filter(|c| c.is_alphabetic()));
        line += usize::from(c == '\n');
        after_small = c.is_lowercase();
    }
    let is_form = |((_, word), of): (&(usize, String), &&str)| {
        let ending = word.strip_prefix(of);
        ending.is_some_and(|ending| ["", "s", "es", "ed", "ing"].contains(&ending))
    };
    let mut found = Words::new();
    for old in old {
        let parts: Vec<_> = old.split(' ').collect();
        let places = words.windows(parts.len());
        let places = places.filter(|words| words.iter().zip(&parts).all(is_form));
        found.extend(places.map(|words| (words[0].0, (*old).to_owned())));
    }
    found
}

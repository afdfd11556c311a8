//! What the name of an argument says of its value.

use super::MatcherKind;

/// Last words of names of paths, in lower case.
const PATHS: [&str; 19] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "filepaths",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
    "source",
    "destination",
    "src",
    "dst",
    "cwd",
];
/// Words before `name` with which it names a path, as in `file_name`.
const NAMED: [&str; 5] = ["file", "path", "dir", "directory", "folder"];
/// Last words of names of plain text, in lower case.
const PROSE: [&str; 28] = [
    "message",
    "messages",
    "text",
    "texts",
    "content",
    "contents",
    "body",
    "title",
    "subject",
    "description",
    "summary",
    "comment",
    "comments",
    "note",
    "notes",
    "prompt",
    "thought",
    "query",
    "sql",
    "observation",
    "observations",
    "markdown",
    "branch",
    "timezone",
    "timestamp",
    "selector",
    "reason",
    "caption",
];
/// Ends of names of addresses, in lower case.
const ADDRESSES: [&str; 6] = ["url", "uri", "urls", "uris", "href", "endpoint"];

/// How an argument of this name is read if it can be text.
pub fn kind_of_text(name: &str) -> MatcherKind {
    let words = words(name);
    let mut last = words.iter().rev().map(String::as_str);
    let (last, before) = (last.next().unwrap_or_default(), last.next());
    let lower = name.to_ascii_lowercase();
    let named = match last {
        "name" => before.unwrap_or_default(),
        last => last,
    };
    match () {
        () if ADDRESSES.iter().any(|end| lower.ends_with(end)) => MatcherKind::Host,
        () if PATHS.contains(&last) => MatcherKind::Path,
        () if last == "name" && NAMED.contains(&named) => MatcherKind::Path,
        () if PROSE.contains(&named) => MatcherKind::Prose,
        () => MatcherKind::Text,
    }
}

/// The words of `repo_path`, `filePath` or `file-name`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let is_word = letter.is_alphanumeric();
        if (!is_word || (was_lower && letter.is_uppercase()))
            && words.last().is_some_and(|it| !it.is_empty())
        {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| is_word) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

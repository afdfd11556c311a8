//! The ways in which programs read a text as a path.

/// Longest path in bytes; systems take no longer one.
const MAX_PATH: usize = 4096;
/// Most ways to read one text. A text with more is unclear.
const MOST: usize = 64;

/// One way to read a text as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    /// The text that a program would open.
    pub(super) text: String,
    /// The same path by its text alone: without `.`, `..` and empty parts, and from the folder if it is
    /// below.
    pub(super) path: String,
}

/// The ways to read one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readings {
    /// Each of them once. None for what no system takes for a path.
    pub(super) all: Vec<Reading>,
    /// All of them are known, and none depends on the process or the person that reads it.
    pub(super) is_known: bool,
    /// There is one, and every program reads it so.
    pub(super) is_single: bool,
}

/// Reads a text as the programs of `folder` may read it: as it is, without blanks or quotes around it, up to
/// a NUL, decoded, with backslashes as separators, as a `file:` address.
pub(super) fn readings(text: &str, folder: Option<&str>) -> Readings {
    let mut texts = vec![text.to_owned()];
    let mut at = 0;
    let mut is_known = true;
    while let Some(text) = texts.get(at).cloned() {
        for other in others(&text) {
            if texts.contains(&other) {
                continue;
            }
            match texts.len() < MOST {
                true => texts.push(other),
                false => is_known = false,
            }
        }
        at += 1;
    }
    let mut all = Vec::new();
    let mut is_whole = true;
    for text in texts {
        let whole = normal(&text, folder);
        is_known &= !is_home(&text) && !is_variable(&text) && !is_of_process(&whole);
        let path = match folder {
            Some(folder) => below(&parts(folder), whole),
            None => whole,
        };
        if path.len() > MAX_PATH {
            is_whole = false;
            continue;
        }
        all.push(Reading { text, path });
    }
    let is_ambiguous = |c: char| c.is_control() || c == '\\';
    let is_ambiguous = text.contains(is_ambiguous) || has_wide_escape(text);
    Readings {
        is_single: is_known && is_whole && all.len() == 1 && !is_ambiguous,
        is_known,
        all,
    }
}

/// Further texts that some program makes of this one.
fn others(text: &str) -> Vec<String> {
    let mut others = Vec::new();
    if let Some((before, _)) = text.split_once('\0') {
        others.push(before.to_owned());
    }
    let is_around =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '"' | '\'' | '`');
    let trimmed = text.trim_matches(is_around);
    if trimmed != text {
        others.push(trimmed.to_owned());
    }
    // As readers of addresses do.
    if text.contains(['\t', '\n', '\r']) {
        others.push(text.replace(['\t', '\n', '\r'], ""));
    }
    if text.contains('\\') {
        others.push(text.replace('\\', "/"));
    }
    others.extend(decoded(text));
    others.extend(of_address(text));
    others
}

/// The text with `%2e` as `.`, if it has any such part.
fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: usize| {
        let digit = bytes.get(at).copied().map(char::from);
        digit.and_then(|digit| digit.to_digit(16))
    };
    let (mut decoded, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    let decoded = String::from_utf8_lossy(&decoded).into_owned();
    (decoded != text).then_some(decoded)
}

/// Whether it has a part such as `%u002e`, which few programs decode. A `%` before other letters stands for
/// itself.
fn has_wide_escape(text: &str) -> bool {
    text.contains("%u") || text.contains("%U")
}

/// The paths of a `file:` address. Readers differ about its authority, and about what follows the path.
fn of_address(text: &str) -> Vec<String> {
    let is_file = text
        .get(..5)
        .is_some_and(|it| it.eq_ignore_ascii_case("file:"));
    let Some(rest) = text.get(5..).filter(|_| is_file) else {
        return Vec::new();
    };
    let mut paths = vec![rest.to_owned()];
    if let Some(rest) = rest.strip_prefix("//") {
        paths.push(rest.to_owned());
        paths.extend(rest.find('/').map(|at| rest[at..].to_owned()));
    }
    let cut = |path: &String| path.split(['?', '#']).next().map(str::to_owned);
    let cut: Vec<String> = paths.iter().filter_map(cut).collect();
    paths.extend(cut);
    paths.retain(|path| !path.is_empty());
    paths
}

/// The home folder of a person, as shells and many servers read it.
fn is_home(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('~') else {
        return false;
    };
    let name = rest.split('/').next().unwrap_or_default();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    (rest.is_empty() || rest.contains('/')) && name.chars().all(is_name)
}

/// A path from a variable, such as `$HOME/a`, `${PWD}/a` or `%TEMP%/a`, as shells and some servers read it.
/// `$id.tsx` is the name of a file.
fn is_variable(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some((name, rest)) = text.strip_prefix('%').and_then(|it| it.split_once('%')) {
        let is_end = rest.is_empty() || rest.starts_with('/');
        return is_end && !name.is_empty() && name.chars().all(is_letter);
    }
    let Some(rest) = text.strip_prefix('$') else {
        return false;
    };
    let name = rest.split('/').next().unwrap_or_default();
    let inner = name.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    let is_upper = |c: char| c.is_ascii_uppercase() || c == '_';
    let name = inner.unwrap_or(name);
    name.starts_with(is_upper) && name.chars().all(|c| is_upper(c) || c.is_ascii_digit())
}

/// Such a path leads elsewhere in each process.
fn is_of_process(path: &str) -> bool {
    // It leaves a folder that is not known, so it may begin at the root.
    let path = match path.strip_prefix("../") {
        Some(rest) => rest.trim_start_matches("../"),
        None => match path.strip_prefix('/') {
            Some(rest) => rest,
            None => return false,
        },
    };
    let mut parts = path.split('/');
    match parts.next() {
        Some("proc") => true,
        Some("dev") => parts.next() == Some("fd"),
        _ => false,
    }
}

/// A path from its folder, if that is known, without `.`, `..` and empty parts.
pub(super) fn normal(text: &str, folder: Option<&str>) -> String {
    match folder {
        Some(folder) if !text.starts_with('/') => parts(&format!("{folder}/{text}")),
        _ => parts(text),
    }
}

/// A path that leaves its folder keeps its leading `..`; the folder itself is `.`.
fn parts(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let is_absolute = text.starts_with('/');
    for part in text.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(&last)) if last != ".." => {
                parts.pop();
            }
            ("..", None) if is_absolute => {}
            (part, _) => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// A path in lower case, from the folder if it is below in any case.
pub(super) fn lower(path: &str, folder: Option<&str>) -> String {
    let path = path.to_lowercase();
    match folder {
        Some(folder) => below(&parts(folder).to_lowercase(), path),
        None => path,
    }
}

/// A path from a folder, if it is below.
fn below(folder: &str, path: String) -> String {
    match path.strip_prefix(folder) {
        Some("") => ".".to_owned(),
        Some(rest) if folder.ends_with('/') => rest.to_owned(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None => path,
        },
        None => path,
    }
}

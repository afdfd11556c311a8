//! Small pieces of text for people.

/// The first line of `text`, without white space around it, cut to `limit` characters.
pub fn brief(text: &str, limit: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    cut(line, limit)
}

/// The first line that says something, without white space around it.
pub fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

/// The first sentence of `text`, cut to `limit` characters.
pub fn first_sentence(text: &str, limit: usize) -> String {
    let line = brief(text, usize::MAX);
    let end = line.char_indices().find(|&(at, c)| match c {
        '。' | '！' | '？' => true,
        '.' | '!' | '?' => line[at + 1..].starts_with(' ') || line[at + 1..].is_empty(),
        _ => false,
    });
    match end {
        Some((at, c)) => cut(&line[..at + c.len_utf8()], limit),
        None => cut(&line, limit),
    }
}

/// `text`, with "…" for what is more than `limit` characters.
pub fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

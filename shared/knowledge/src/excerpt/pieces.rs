//! A text in pieces: its lines, and the sentences of long lines.

/// Pieces that are the text when they are put together, each of at most `most_bytes` or one character.
pub(super) fn pieces(text: &str, most_bytes: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while rest.len() > most_bytes {
            let (piece, others) = rest.split_at(cut(rest, most_bytes));
            pieces.push(piece);
            rest = others;
        }
        if !rest.is_empty() {
            pieces.push(rest);
        }
    }
    pieces
}

/// Where to cut: after the last sentence that fits, else after the last word, else after the last character.
fn cut(text: &str, most_bytes: usize) -> usize {
    let fits = &text[..text.floor_char_boundary(most_bytes)];
    let sentence = (fits.char_indices().rev())
        .find(|(at, one)| ends_sentence(*one, &fits[at + one.len_utf8()..]))
        .map(|(at, one)| at + one.len_utf8());
    let word = || fits.rfind(' ').map(|at| at + 1);
    let first = || text.chars().next().map_or(text.len(), char::len_utf8);
    sentence
        .or_else(word)
        .unwrap_or_else(|| fits.len().max(first()))
}

fn ends_sentence(one: char, rest: &str) -> bool {
    match one {
        '。' | '！' | '？' | '；' => true,
        '.' | '!' | '?' | ';' => rest.starts_with(' '),
        _ => false,
    }
}

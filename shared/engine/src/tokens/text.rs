//! Tokens of a text, by rules in place of a vocabulary.
//!
//! The rules follow the way in which `o200k_base` and its like cut a text into pieces before they look for
//! tokens: a word takes the blank before it, digits go by three, a line end takes what ends the line. What a
//! piece costs is a mean that was measured with `o200k_base` over some MB of text of many kinds. The estimate of
//! whole texts was then within:
//!
//! - 6 % for English, Markdown, Rust, Python, JavaScript, JSON, base64, hexadecimal, numbers, French, Spanish,
//!   Korean and simplified Chinese;
//! - 11 % for C, logs and diffs, and for Russian, Ukrainian, Arabic, Hebrew, Hindi, Thai and Japanese;
//! - 23 % for names of files, traditional Chinese, German, Polish and most languages with Latin letters, and 31 %
//!   for small ones. Of all these the estimate is too low.

/// What one token counts while it is summed up: costs are means, so they are parts of tokens.
const TOKEN: u64 = 100;

/// An unbroken row of letters and digits so long may be no words.
const LEAST_CODED: usize = 12;
/// It is none if its pieces have fewer letters than this in the mean.
const CODED_PIECE: usize = 3;
/// What each of its characters costs: with letters of both cases, as in base64, and of one, as in hexadecimal.
const PER_BASE64: u64 = 70;
const PER_HEX: u64 = 57;

/// Tokens that a text would take in a common model.
pub fn of_text(text: &str) -> u64 {
    hundredths(text).div_ceil(TOKEN)
}

fn hundredths(text: &str) -> u64 {
    let (mut rest, mut before, mut cost) = (text.as_bytes(), Before::Line, 0);
    while let Some(first) = rest.first() {
        let piece = match class(*first) {
            Class::Lower | Class::Upper | Class::Digit => word(rest, before),
            Class::Blank => blanks(rest),
            Class::Line => lines(rest),
            Class::Mark => marks(rest, before),
            Class::Wide => wide(rest),
        };
        cost += piece.cost;
        before = piece.is;
        rest = &rest[piece.length..];
    }
    cost
}

/// What a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Blank,
    Line,
    /// Any other ASCII character.
    Mark,
    /// Of a character that is not ASCII.
    Wide,
}

static CLASSES: [Class; 256] = {
    let mut classes = [Class::Mark; 256];
    let mut byte = 0;
    while byte < classes.len() {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' => Class::Blank,
            b'\n' | b'\r' => Class::Line,
            0x80.. => Class::Wide,
            _ => Class::Mark,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// How many bytes at the beginning are of this class.
fn run(bytes: &[u8], of: Class) -> usize {
    let others = bytes.iter().position(|byte| class(*byte) != of);
    others.unwrap_or(bytes.len())
}

/// What stands before a piece: a word costs more where it cannot take a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The beginning, or a line end.
    Line,
    Blank,
    Mark,
    Word,
    /// A Latin letter that is not ASCII: the same word continues.
    Accent,
    Wide,
}

/// A piece at the beginning of a text.
struct Piece {
    length: usize,
    cost: u64,
    /// What it is to the next piece.
    is: Before,
}

/// Letters and digits up to another character. A capital letter begins a new word, as in `firstWord`.
fn word(bytes: &[u8], before: Before) -> Piece {
    let (mut length, mut cost, mut pieces) = (0, 0, 0);
    let (mut has_upper, mut has_lower, mut before) = (false, false, before);
    loop {
        let rest = &bytes[length..];
        let upper = run(rest, Class::Upper);
        // Several capital letters are a piece without the word behind them.
        let lower = match upper {
            0 | 1 => run(&rest[upper..], Class::Lower),
            _ => 0,
        };
        let letters = upper + lower;
        let digits = match letters {
            0 => run(rest, Class::Digit),
            _ => 0,
        };
        if letters + digits == 0 {
            break;
        }
        cost += match (digits, upper) {
            (0, 0 | 1) => of_word(letters as u64, before),
            (0, _) => of_capitals(letters as u64),
            _ => TOKEN * (digits as u64).div_ceil(3),
        };
        length += letters + digits;
        pieces += 1;
        has_upper |= upper > 0;
        has_lower |= lower > 0;
        before = Before::Word;
    }
    if length >= LEAST_CODED && pieces * CODED_PIECE >= length {
        let each = match has_upper && has_lower {
            true => PER_BASE64,
            false => PER_HEX,
        };
        cost = each * length as u64;
    }
    Piece {
        length,
        cost,
        is: Before::Word,
    }
}

/// A word of so many letters, of which only the first may be a capital one.
fn of_word(letters: u64, before: Before) -> u64 {
    match before {
        Before::Blank => TOKEN + 5 * letters.saturating_sub(4),
        Before::Accent => 20 * letters,
        _ => TOKEN + 8 * letters.saturating_sub(3),
    }
}

fn of_capitals(letters: u64) -> u64 {
    TOKEN + 25 * letters.saturating_sub(3)
}

/// Blanks up to another character. One of them goes with a word or a mark, and none with a digit.
fn blanks(bytes: &[u8]) -> Piece {
    let length = run(bytes, Class::Blank);
    let next = bytes.get(length).map(|byte| class(*byte));
    let cost = match (next, length) {
        // They go with the line end.
        (None | Some(Class::Line), _) => 0,
        (Some(Class::Digit), 1) => TOKEN,
        (Some(Class::Digit), _) => 2 * TOKEN,
        (_, 1) => 0,
        _ => TOKEN,
    };
    Piece {
        length,
        cost,
        is: Before::Blank,
    }
}

/// Line ends up to another character.
fn lines(bytes: &[u8]) -> Piece {
    Piece {
        length: run(bytes, Class::Line),
        cost: TOKEN,
        is: Before::Line,
    }
}

/// Marks up to another character. At the end of a line they go with it, and a single one goes with the word
/// behind it, unless it has taken a blank.
fn marks(bytes: &[u8], before: Before) -> Piece {
    let length = run(bytes, Class::Mark);
    let next = bytes.get(length).map(|byte| class(*byte));
    let (count, marks) = (length as u64, &bytes[..length]);
    let is_rule = length > 1 && marks.iter().all(|mark| *mark == marks[0]);
    let cost = match is_rule {
        true => TOKEN + 6 * count,
        false => TOKEN + 40 * count.saturating_sub(3),
    };
    let cost = match next {
        Some(Class::Line) => cost - TOKEN,
        Some(Class::Lower | Class::Upper) if length == 1 && before != Before::Blank => 0,
        _ => cost,
    };
    Piece {
        length,
        cost,
        is: Before::Mark,
    }
}

/// One character that is not ASCII, by its script.
fn wide(bytes: &[u8]) -> Piece {
    let second = bytes.get(1).copied().unwrap_or_default();
    let (cost, is) = match (bytes[0], second) {
        // Latin letters, as in Polish and Vietnamese.
        (0xC3..=0xC9, _) | (0xE1, 0xB8..=0xBB) => (90, Before::Accent),
        // Signs such as § and ·.
        (0xC2, _) => (90, Before::Wide),
        // Cyrillic; Greek, Armenian, Hebrew and Arabic are dearer.
        (0xD0..=0xD3, _) => (33, Before::Wide),
        (..=0xDF, _) => (42, Before::Wide),
        // The scripts of India, and Thai.
        (0xE0, _) => (47, Before::Wide),
        (0xE1, _) => (60, Before::Wide),
        // Dashes, arrows, boxes.
        (0xE2, _) => (100, Before::Wide),
        // Marks of Chinese and Japanese; then kana.
        (0xE3, 0x80) => (98, Before::Wide),
        (0xE3, _) => (68, Before::Wide),
        (0xE4..=0xE9, _) => (70, Before::Wide),
        // Korean.
        (0xEA..=0xED, _) => (72, Before::Wide),
        (0xEE..=0xEF, _) => (98, Before::Wide),
        // Emoji.
        (0xF0.., _) => (150, Before::Wide),
    };
    let is_rest = |byte: &&u8| (0x80..0xC0).contains(*byte);
    Piece {
        length: 1 + bytes[1..].iter().take_while(is_rest).count(),
        cost,
        is,
    }
}

#[cfg(test)]
mod tests;

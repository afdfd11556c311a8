//! The tokens of a goal, in English, Chinese or both.

/// A piece of a goal's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A quoted phrase, without its quotation marks.
    Quoted(String),
    /// A word, number, path or identifier that is not Chinese.
    Word(String),
    /// A run of Han characters.
    Han(String),
    /// A comma, colon or bracket.
    Comma,
    /// The end of a sentence or a line.
    Stop,
}

impl Token {
    /// The word in lower case, empty for every other token.
    pub(super) fn lower(&self) -> String {
        match self {
            Self::Word(word) => word.to_lowercase(),
            _ => String::new(),
        }
    }

    /// The run of Han characters, empty for every other token.
    pub(super) fn han(&self) -> &str {
        match self {
            Self::Han(run) => run,
            _ => "",
        }
    }
}

const QUOTES: [(char, char); 8] = [
    ('"', '"'),
    ('`', '`'),
    ('“', '”'),
    ('‘', '’'),
    ('「', '」'),
    ('『', '』'),
    ('《', '》'),
    ('«', '»'),
];

/// A longer phrase between two marks is more likely to be two stray marks.
const MAX_QUOTED_CHARS: usize = 120;

/// Whether `c` is a Chinese character.
pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2fa1f}' | '々' | '〇')
}

/// Splits `text` into its tokens.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if let Some((phrase, next)) = quoted(&chars, at) {
            tokens.push(Token::Quoted(phrase));
            at = next;
            continue;
        }
        let end = at + chars[at..].iter().take_while(|c| is_han(**c)).count();
        if end > at {
            tokens.push(Token::Han(chars[at..end].iter().collect()));
            at = end;
            continue;
        }
        let end = at + chars[at..].iter().take_while(|c| is_word(**c)).count();
        if end > at {
            push_word(&chars[at..end], &mut tokens);
            at = end;
            continue;
        }
        match chars[at] {
            '!' | '?' | ';' | '\n' | '。' | '！' | '？' | '；' => tokens.push(Token::Stop),
            ',' | '，' | '、' | '：' | '(' | ')' | '（' | '）' => tokens.push(Token::Comma),
            _ => {}
        }
        at += 1;
    }
    tokens
}

/// `text` with a comma in the place of every quoted phrase.
pub(super) fn unquoted(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut plain = String::new();
    let mut at = 0;
    while at < chars.len() {
        if let Some((_, next)) = quoted(&chars, at) {
            plain.push_str(" , ");
            at = next;
        } else {
            plain.push(chars[at]);
            at += 1;
        }
    }
    plain
}

fn is_word(c: char) -> bool {
    (c.is_alphanumeric() && !is_han(c)) || "_./*+#-:@~&'%\\=".contains(c)
}

/// The quoted phrase that begins at `at`, and where the text continues.
fn quoted(chars: &[char], at: usize) -> Option<(String, usize)> {
    let open = chars[at];
    let before = at.checked_sub(1).map(|index| chars[index]);
    let close = if open == '\'' {
        // An apostrophe inside a word opens nothing.
        if before.is_some_and(char::is_alphanumeric) {
            return None;
        }
        '\''
    } else {
        QUOTES.iter().find(|(start, _)| *start == open)?.1
    };
    let length = chars[at + 1..]
        .iter()
        .take(MAX_QUOTED_CHARS + 1)
        .position(|c| *c == close)?;
    let phrase: String = chars[at + 1..at + 1 + length].iter().collect();
    let next = at + length + 2;
    let inside_word = open == '\'' && chars.get(next).is_some_and(|c| c.is_alphanumeric());
    let phrase = phrase.trim().to_owned();
    if phrase.is_empty() || phrase.contains('\n') || inside_word {
        return None;
    }
    Some((phrase, next))
}

fn push_word(chars: &[char], tokens: &mut Vec<Token>) {
    let raw: String = chars.iter().collect();
    let ends_sentence = raw.ends_with('.');
    let mut word = raw
        .trim_start_matches(['\'', ':', '-', '&', '%', '=', '+', '#', '@'])
        .trim_end_matches(['\'', ':', '-', '&', '%', '=', '.', '~']);
    for possessive in ["'s", "'S"] {
        word = word.strip_suffix(possessive).unwrap_or(word);
    }
    if word.chars().any(char::is_alphanumeric) {
        tokens.push(Token::Word(word.to_owned()));
    } else if word == "/" || word == "*" {
        tokens.push(Token::Comma);
    }
    if ends_sentence {
        tokens.push(Token::Stop);
    } else if raw.ends_with(':') {
        tokens.push(Token::Comma);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_split_into_words_phrases_and_runs() {
        let word = |text: &str| Token::Word(text.into());
        assert_eq!(
            tokens("Where's \"a b\" in docs/x.md? don't C++."),
            [
                word("Where"),
                Token::Quoted("a b".into()),
                word("in"),
                word("docs/x.md"),
                Token::Stop,
                word("don't"),
                word("C++"),
                Token::Stop
            ]
        );
        assert_eq!(
            tokens("在docs目录下，找「会话 记忆」"),
            [
                Token::Han("在".into()),
                word("docs"),
                Token::Han("目录下".into()),
                Token::Comma,
                Token::Han("找".into()),
                Token::Quoted("会话 记忆".into())
            ]
        );
    }

    #[test]
    fn a_stray_quotation_mark_opens_nothing() {
        assert_eq!(
            tokens("12\" of rope"),
            [
                Token::Word("12".into()),
                Token::Word("of".into()),
                Token::Word("rope".into())
            ]
        );
        assert_eq!(tokens("\"\" ''"), []);
    }
}

//! Lines that stand above others: headings of texts, definitions of programs.

/// What the lines that stand above others are called in a file.
pub(super) fn noun(path: &str) -> &'static str {
    match kind(path) {
        Kind::Program => "definition",
        Kind::Markdown | Kind::Prose => "heading",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Markdown,
    Program,
    Prose,
}

const PROGRAMS: &str = "rs py js mjs cjs jsx ts tsx go java kt c h cc cpp cxx hpp rb sh proto swift \
    php cs scala lua";

/// Words that begin a definition, after words that only qualify it.
const DEFINITIONS: &str = "fn struct enum trait impl mod class def func function interface type \
    module message service macro_rules! union object";

const QUALIFIERS: &str = "pub pub(crate) pub(super) async const unsafe extern export default public \
    private protected static final abstract override data sealed";

fn kind(path: &str) -> Kind {
    let ending = path
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_lowercase());
    match ending.as_deref() {
        Some("md" | "markdown") => Kind::Markdown,
        Some(ending) if PROGRAMS.split_whitespace().any(|p| p == ending) => Kind::Program,
        _ => Kind::Prose,
    }
}

/// The headings or definitions among `lines` of the file at `path`. In Markdown nothing inside a
/// fenced block is one, so `lines` has to begin with the file; else there is none.
pub(super) fn headings<'a>(path: &str, lines: &'a [(u64, String)]) -> Vec<(u64, &'a str)> {
    let kind = kind(path);
    if kind == Kind::Markdown && lines.first().is_none_or(|(number, _)| *number != 1) {
        return Vec::new();
    }
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for (number, line) in lines {
        let text = line.trim();
        if kind == Kind::Markdown {
            match (fence, fence_of(text)) {
                (None, Some(opening)) => fence = Some(opening),
                (Some(opening), Some(closing))
                    if closing.starts_with(opening) && closing.len() == text.len() =>
                {
                    fence = None;
                }
                _ => {}
            }
        }
        if fence.is_none() && is_heading(kind, text) {
            found.push((*number, line.as_str()));
        }
    }
    found
}

/// The marks that open or close a fenced block.
fn fence_of(text: &str) -> Option<&str> {
    ['`', '~'].into_iter().find_map(|mark| {
        let marks = text.len() - text.trim_start_matches(mark).len();
        (marks >= 3).then(|| &text[..marks])
    })
}

fn is_heading(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Markdown => {
            let rest = text.trim_start_matches('#');
            let level = text.len() - rest.len();
            (1..=6).contains(&level) && rest.starts_with([' ', '\t'])
        }
        Kind::Program => {
            let mut words = text.split(|c: char| c.is_whitespace() || c == '<');
            let word = words.find(|word| !QUALIFIERS.split_whitespace().any(|q| q == *word));
            let named = words.next().is_some();
            named && word.is_some_and(|word| DEFINITIONS.split_whitespace().any(|d| d == word))
        }
        Kind::Prose => is_chapter(text),
    }
}

/// `第一章 …`, `Chapter 1 …`.
fn is_chapter(text: &str) -> bool {
    let english = ["Chapter ", "CHAPTER ", "Part ", "PART "]
        .iter()
        .any(|word| text.starts_with(word));
    let chinese = text.strip_prefix('第').is_some_and(|rest| {
        let end = rest
            .char_indices()
            .take(6)
            .find(|(_, c)| "章节回卷部篇".contains(*c));
        end.is_some_and(|(at, _)| at > 0 && rest[..at].chars().all(is_numeral))
    });
    (english && text.chars().count() <= 80) || (chinese && text.chars().count() <= 40)
}

fn is_numeral(c: char) -> bool {
    c.is_ascii_digit() || "零〇一二三四五六七八九十百千两".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[u64]) {
        let lines: Vec<(u64, String)> = (1..).zip(text.lines().map(str::to_owned)).collect();
        let found: Vec<u64> = headings(path, &lines).iter().map(|(n, _)| *n).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn headings_of_texts_and_programs() {
        check("a.md", "# A\ntext\n#tag\n## B\n####### C", &[1, 4]);
        check(
            "a.md",
            "# A\n```sh\n# comment\n```\n## B\n~~~\n# c\n```\n# d",
            &[1, 5],
        );
        check(
            "a.rs",
            "pub fn a() {}\nlet fn_ = 1;\nimpl<T> X for T {\nfn\nasync fn b()",
            &[1, 3, 5],
        );
        check("a.py", "class A:\n    def b(self):\n        pass", &[1, 2]);
        check(
            "a.txt",
            "第一回 桃园\n第一次见面\n第十二章\nChapter 1\n# no",
            &[1, 3, 4],
        );
    }

    #[test]
    fn markdown_from_the_middle_tells_nothing() {
        assert_eq!(headings("a.md", &[(7, "# A".into())]), []);
    }
}

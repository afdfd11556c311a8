//! Pages of knowledge: Markdown with a title and tags in its front matter, or without any.

use crate::document::{Document, Front, MAX_FILE};
use crate::fault::{AgentError, shown};
use crate::fields::{Fields, split_names};
use crate::yaml::{self, Value};
use cairn_engine::escape::breaks_line;
use cairn_engine::limits::{
    MAX_PAGE_TAG, MAX_PAGE_TAGS, MAX_PAGE_TEXT, MAX_PAGE_TITLE, is_page_line,
};

/// Most bytes of a file: the text of a page, and front matter.
pub const MAX_PAGE_FILE: usize = MAX_PAGE_TEXT + MAX_FILE;

/// A page as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFile {
    /// The title of the front matter, or the first heading.
    pub title: Option<String>,
    /// The tags of the front matter.
    pub tags: Vec<String>,
    /// What follows the front matter, without blank lines around it.
    pub text: String,
}

/// Reads the file of a page. Other fields of its front matter do not count.
///
/// # Errors
/// Every fault of the file, each with its line, its field, and the allowed values.
pub fn parse(path: &str, text: &str) -> Result<PageFile, AgentError> {
    let one = |fault| AgentError::one(path, fault);
    let document = Document::of(text, MAX_PAGE_FILE).map_err(one)?;
    let entries = match &document.front {
        None => Vec::new(),
        // Its warnings are about fields that do not count.
        Some(Front { source, before }) => {
            let (entries, _) = yaml::read(source, *before, &["tags", "title"]).map_err(one)?;
            entries
        }
    };
    let mut fields = Fields::new("", entries);
    let title = title(&mut fields).or_else(|| heading(&document.body));
    let tags = tags(&mut fields);
    let text = document.body;
    if text.is_empty() {
        let allowed = "a text, after the front matter if there is any";
        fields.found.error(0, "", "has no text", allowed);
    } else if text.len() > MAX_PAGE_TEXT {
        let problem = format!("has a text of {} bytes", text.len());
        let allowed = format!("at most {MAX_PAGE_TEXT}; store its parts as pages of their own");
        fields.found.error(0, "", problem, allowed);
    }
    let found = fields.found.finish(path, PageFile { title, tags, text })?;
    Ok(found.value)
}

fn title(fields: &mut Fields) -> Option<String> {
    let entry = fields.take(&["title"])?;
    if matches!(entry.value, Value::Nothing) {
        return None;
    }
    let title = scalar(&entry.value).filter(|title| is_page_line(title, MAX_PAGE_TITLE));
    if title.is_none() {
        let allowed = format!("one line of 1 to {MAX_PAGE_TITLE} bytes");
        let problem = shown(&entry.value);
        fields.found.error(entry.line, "title", problem, allowed);
    }
    title
}

/// Tags of a list, or of one text with commas or blanks between them.
fn tags(fields: &mut Fields) -> Vec<String> {
    let Some(entry) = fields.take(&["tags"]) else {
        return Vec::new();
    };
    let allowed =
        || format!("at most {MAX_PAGE_TAGS} tags, each one line of 1 to {MAX_PAGE_TAG} bytes");
    let mut tags = Vec::new();
    match &entry.value {
        Value::Nothing => {}
        Value::Text(text) => tags.extend(split_names(text).into_iter().map(str::to_owned)),
        Value::List(nodes) => {
            for node in nodes {
                match scalar(&node.value) {
                    Some(tag) => tags.push(tag),
                    None => {
                        let problem = format!("has an item that {}", shown(&node.value));
                        fields.found.error(node.line, "tags", problem, allowed());
                    }
                }
            }
        }
        other => fields
            .found
            .error(entry.line, "tags", shown(other), allowed()),
    }
    if let Some(tag) = tags.iter().find(|tag| !is_page_line(tag, MAX_PAGE_TAG)) {
        let problem = format!("has a tag of {} bytes, or one with line breaks", tag.len());
        fields.found.error(entry.line, "tags", problem, allowed());
    }
    if tags.len() > MAX_PAGE_TAGS {
        let problem = format!("has {} tags", tags.len());
        fields.found.error(entry.line, "tags", problem, allowed());
    }
    tags
}

/// A text, or a number as a text: a year is a title and a tag.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.trim().to_owned()),
        Value::Whole(number) => Some(number.to_string()),
        Value::Number(number) => Some(number.clone()),
        Value::Nothing | Value::Truth(_) | Value::List(_) | Value::Map(_) => None,
    }
}

/// The first heading `# …` that is in no block of code, as long as a title may be.
fn heading(text: &str) -> Option<String> {
    let mut fence = None;
    for line in text.lines() {
        let words = line.trim_start();
        if line.len() - words.len() > 3 {
            continue;
        }
        let mark = ["```", "~~~"].into_iter().find(|it| words.starts_with(it));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                if let Some(title) = heading_of(words) {
                    return Some(title);
                }
            }
            (Some(_), _) => {}
        }
    }
    None
}

fn heading_of(line: &str) -> Option<String> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &line[level..];
    if !(1..=6).contains(&level) || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let words = rest.trim();
    // Only hashes after a blank close a heading: `# C#` is about C#.
    let open = words.trim_end_matches('#');
    let words = match open.is_empty() || open.ends_with([' ', '\t']) {
        true => open.trim_end(),
        false => words,
    };
    let shown = |c: &char| !c.is_control() && !breaks_line(*c);
    let mut title: String = words.chars().filter(shown).collect();
    if title.len() > MAX_PAGE_TITLE {
        let end = title.floor_char_boundary(MAX_PAGE_TITLE - '…'.len_utf8());
        title.truncate(end);
        title.push('…');
    }
    is_page_line(&title, MAX_PAGE_TITLE).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> (Option<String>, Vec<String>, String) {
        let PageFile { title, tags, text } = parse("a.md", text).expect("a page");
        (title, tags, text)
    }

    fn error(text: &str) -> String {
        parse("a.md", text).expect_err("a fault").to_string()
    }

    #[test]
    fn front_matter_has_title_and_tags_and_other_fields_do_not_count() {
        let text = "---\ntitle: Keys\ndate: 2026-11-27\naliases: {a: [b]}\ntags: [ops, 2026]\n---\n\n# Rotate\nB\n";
        let (title, tags, text) = page(text);
        assert_eq!(title.as_deref(), Some("Keys"));
        assert_eq!(tags, ["ops", "2026"]);
        assert_eq!(text, "# Rotate\nB");
        assert_eq!(page("---\ntags: a, b c\n---\nB").1, ["a", "b c"]);
        assert_eq!(page("---\ntitle:\ntags:\n---\nB"), page("B"));
    }

    #[test]
    fn the_first_heading_is_the_title_of_a_page_without_one() {
        for (text, title) in [
            ("# One\n# Two", Some("One")),
            ("A\n\n  ## Two ##\n", Some("Two")),
            ("# C#", Some("C#")),
            ("#\n##\tThree", Some("Three")),
            ("```sh\n# no\n```\n~~~\n```\n# no\n~~~\n# yes", Some("yes")),
            ("    # code\n#tag\n####### seven", None),
        ] {
            assert_eq!(page(text).0.as_deref(), title, "{text:?}");
        }
        let long = page(&format!("# {}", "é".repeat(MAX_PAGE_TITLE))).0;
        let long = long.expect("a title");
        assert!(
            long.len() <= MAX_PAGE_TITLE && long.ends_with('…'),
            "{long}"
        );
    }

    #[test]
    fn a_fault_names_its_line_and_what_is_allowed() {
        let title = "(allowed: one line of 1 to 256 bytes)";
        for (text, expected) in [
            (
                "---\ntitle: [a]\n---\nB",
                format!("a.md:2: title is a list {title}"),
            ),
            (
                "---\n---\n \n",
                "a.md: has no text (allowed: a text, after the front matter if there is any)"
                    .to_owned(),
            ),
        ] {
            assert_eq!(error(text), expected);
        }
        let tags = "at most 16 tags, each one line of 1 to 64 bytes";
        let many = "a,".repeat(MAX_PAGE_TAGS + 1);
        let expected = format!("a.md:2: tags has 17 tags (allowed: {tags})");
        assert_eq!(error(&format!("---\ntags: \"{many}\"\n---\nB")), expected);
        let nested = error("---\ntags:\n  - a\n  - [b]\n---\nB");
        let expected = format!("a.md:4: tags has an item that is a list (allowed: {tags})");
        assert_eq!(nested, expected);
        let long = error(&"a".repeat(MAX_PAGE_TEXT + 1));
        assert!(
            long.starts_with("a.md: has a text of 204801 bytes"),
            "{long}"
        );
    }
}

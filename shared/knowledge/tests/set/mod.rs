//! The pages and queries of the set.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A page of knowledge.
pub(crate) struct Page {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) tags: Vec<String>,
    pub(crate) text: String,
}

impl Page {
    /// By its characters, of which a Chinese page has few others.
    pub(crate) fn is_chinese(&self) -> bool {
        let chinese = self.text.chars().filter(|one| is_han(*one)).count();
        chinese * 2 > self.text.chars().filter(|one| one.is_alphabetic()).count()
    }

    /// Title, tags and text.
    pub(crate) fn all(&self) -> String {
        format!("{}\n{}\n{}", self.title, self.tags.join("\n"), self.text)
    }
}

/// Whether it is a Chinese character.
pub(crate) fn is_han(one: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&one)
}

/// The words of a text in lower case, as they are, and the pairs of its Chinese characters.
pub(crate) fn raw_terms(text: &str) -> BTreeSet<String> {
    let text = text.to_lowercase();
    let mut terms = BTreeSet::new();
    for run in text.split(|one: char| !one.is_alphanumeric()) {
        for word in run.split(is_han).filter(|word| !word.is_empty()) {
            terms.insert(word.to_owned());
        }
        let characters: Vec<char> = run.chars().collect();
        for pair in characters
            .windows(2)
            .filter(|pair| pair.iter().all(|one| is_han(*one)))
        {
            terms.insert(pair.iter().collect());
        }
    }
    terms
}

/// A question, and the page that answers it.
pub(crate) struct Question {
    pub(crate) page: String,
    pub(crate) text: String,
}

impl Question {
    /// The first half of the set is English.
    pub(crate) fn is_chinese(&self) -> bool {
        self.page.as_str() > "30"
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/set")
}

/// The pages, in the order of their ids.
pub(crate) fn pages() -> Vec<Page> {
    let files = std::fs::read_dir(folder().join("pages")).unwrap();
    let mut pages: Vec<Page> = files.map(|file| page(&file.unwrap().path())).collect();
    pages.sort_by(|a, b| a.id.cmp(&b.id));
    pages
}

fn page(path: &Path) -> Page {
    let file = std::fs::read_to_string(path).unwrap();
    let (head, text) = file
        .trim_start_matches("---\n")
        .split_once("\n---\n")
        .unwrap();
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
    };
    let tags = field("tags: [").trim_end_matches(']');
    Page {
        id: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        title: field("title: ").to_owned(),
        tags: tags.split(", ").map(str::to_owned).collect(),
        text: text.to_owned(),
    }
}

/// The queries, in the order of their pages.
pub(crate) fn questions() -> Vec<Question> {
    let lines = std::fs::read_to_string(folder().join("queries.jsonl")).unwrap();
    let field = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    (lines.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|line| Question {
            page: field(&line, "page"),
            text: field(&line, "query"),
        })
        .collect()
}

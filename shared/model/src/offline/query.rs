//! What a goal asks for: where to look, in which files, for what.

mod terms;

use super::refusal;
use super::vocabulary::{is_file_name, is_folder, is_stop, patterns_of, subjects};
use super::words::{Token, tokens};
use serde::{Deserialize, Serialize};

/// Most terms that one offline searches for.
pub(super) const MAX_TERMS: usize = 4;

/// Most terms beyond that limit that are named.
const MAX_LEFT_OUT: usize = 8;

/// Bytes of a goal that are looked at: what it is about stands at its beginning.
const MAX_GOAL_BYTES: usize = 4_096;

/// Words that stand where the name of a folder might, and are none.
const NO_FOLDERS: [&str; 8] = [
    "root",
    "working",
    "parent",
    "own",
    "top-level",
    "hood",
    "load",
    "pressure",
];

/// The files that a goal is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scope {
    /// Folder to look into, relative to the workspace; `.` is the whole of it.
    #[serde(rename = "under")]
    pub(super) path: String,
    /// `*.ending` patterns and names of files; empty means all files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) only: Vec<String>,
}

impl Scope {
    /// Whether the file at `path` belongs to the scope.
    pub(super) fn admits(&self, path: &str) -> bool {
        if path.starts_with("cairn-out/") {
            return false;
        }
        self.only.is_empty() || self.only.iter().any(|pattern| fits(pattern, path))
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    // A name with odd characters is shown in quotation marks.
    let quoted = path
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let path = quoted.unwrap_or(path);
    if let Some(ending) = pattern.strip_prefix('*') {
        return path.to_lowercase().ends_with(&ending.to_lowercase());
    }
    let (path, pattern) = (path.to_lowercase(), pattern.to_lowercase());
    path == pattern
        || path
            .strip_suffix(&pattern)
            .is_some_and(|folder| folder.ends_with('/'))
}

/// A goal as the rules understand it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) scope: Scope,
    /// What to search for, at most [`MAX_TERMS`].
    pub(super) terms: Vec<String>,
    /// Terms beyond the limit, the first of them.
    pub(super) left_out: Vec<String>,
    /// What the goal asks for and rules cannot do.
    pub(super) refusal: Option<&'static str>,
}

impl Query {
    /// Reads a goal in English or Chinese.
    pub(super) fn parse(goal: &str) -> Self {
        let end = goal.floor_char_boundary(MAX_GOAL_BYTES);
        let goal = &goal[..end];
        let mut reader = Reader::new(tokens(goal));
        reader.find_patterns();
        reader.find_folder();
        reader.find_files();
        let mut terms = terms::of(&reader.tokens, &reader.used);
        let mut left_out = terms.split_off(terms.len().min(MAX_TERMS));
        left_out.truncate(MAX_LEFT_OUT);
        Self {
            terms,
            left_out,
            refusal: refusal::of(goal),
            scope: reader.scope(),
        }
    }
}

/// Reads tokens; what has been understood as a place is marked, so that it is no subject too.
struct Reader {
    tokens: Vec<Token>,
    used: Vec<bool>,
    path: Option<String>,
    only: Vec<String>,
}

impl Reader {
    fn new(tokens: Vec<Token>) -> Self {
        Self {
            used: vec![false; tokens.len()],
            tokens,
            path: None,
            only: Vec::new(),
        }
    }

    fn lower(&self, at: usize) -> String {
        self.tokens.get(at).map(Token::lower).unwrap_or_default()
    }

    fn han(&self, at: usize) -> &str {
        self.tokens.get(at).map(Token::han).unwrap_or_default()
    }

    /// The word before `at` that is no article.
    fn before(&self, at: usize) -> String {
        let mut words = (0..at).rev().map(|index| self.lower(index));
        words
            .find(|word| !matches!(word.as_str(), "the" | "a" | "my" | "our" | "your" | "file"))
            .unwrap_or_default()
    }

    fn han_before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |index| self.han(index))
    }

    fn text(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at)? {
            Token::Quoted(text) | Token::Word(text) => Some(text),
            _ => None,
        }
    }

    fn add_pattern(&mut self, pattern: String) {
        if !self.only.contains(&pattern) {
            self.only.push(pattern);
        }
    }

    fn scope(self) -> Scope {
        let parent = match (&self.path, self.only.as_slice()) {
            (None, [name]) if !name.starts_with('*') => name.rsplit_once('/'),
            _ => None,
        };
        let parent = parent.map(|(folder, _)| folder.to_owned());
        Scope {
            path: self.path.or(parent).unwrap_or_else(|| ".".into()),
            only: self.only,
        }
    }

    /// `*.md`, `.md files`, `Markdown files`, `Rust 代码`.
    fn find_patterns(&mut self) {
        for at in 0..self.tokens.len() {
            let word = self.lower(at);
            let noun = self.lower(at + 1);
            let before_noun = matches!(
                noun.as_str(),
                "file"
                    | "files"
                    | "source"
                    | "sources"
                    | "code"
                    | "document"
                    | "documents"
                    | "script"
                    | "scripts"
            ) || ["文件", "源码", "源文件", "源代码", "代码", "文档", "脚本"]
                .iter()
                .any(|noun| self.han(at + 1).starts_with(noun));
            // The name of a folder may follow: "代码目录" is no kind of file.
            let before_noun = before_noun && !self.han(at + 1).starts_with("文件夹");
            let ending = word.strip_prefix("*.").or_else(|| word.strip_prefix('.'));
            if let Some(ending) = ending
                && !ending.is_empty()
                && ending.chars().all(char::is_alphanumeric)
            {
                self.add_pattern(format!("*.{ending}"));
                self.used[at] = true;
            } else if before_noun && let Some(patterns) = patterns_of(&word) {
                patterns.iter().for_each(|p| self.add_pattern((*p).into()));
                self.used[at] = true;
            }
        }
    }

    /// `under docs`, `in src/`, `the docs folder`, `docs 目录`, `“my notes” folder`.
    fn find_folder(&mut self) {
        for at in 0..self.tokens.len() {
            if self.path.is_some() {
                return;
            }
            if let Some((folder, rest)) = han_folder(self.han(at)) {
                self.path = Some(folder);
                self.tokens[at] = Token::Han(rest);
            } else if !self.used[at] && self.is_folder_at(at) {
                self.used[at] = true;
                self.path = self.text(at).map(normal);
            }
        }
    }

    fn is_folder_at(&self, at: usize) -> bool {
        let Some(text) = self.text(at) else {
            return false;
        };
        let word = text.to_lowercase();
        if word.contains("://") || NO_FOLDERS.contains(&word.as_str()) {
            return false;
        }
        if is_stop(&word) && !is_folder(&word) {
            return false;
        }
        let is_noun = |word: &str| {
            matches!(
                word,
                "folder" | "directory" | "dir" | "subfolder" | "subdirectory"
            )
        };
        let after = self.han(at + 1);
        if is_noun(&self.lower(at + 1)) || ["目录", "文件夹"].iter().any(|n| after.starts_with(n))
        {
            return true;
        }
        if is_file_name(&word) || is_noun(&word) {
            return false;
        }
        let before = self.before(at);
        let han_before = self.han_before(at);
        if ["目录", "文件夹"].iter().any(|n| han_before.ends_with(n)) {
            return true;
        }
        let likely = word.contains('/') || is_folder(&word);
        let inside = ["下", "里", "中", "内"]
            .iter()
            .any(|n| after.starts_with(n));
        match before.as_str() {
            "under" | "inside" | "within" | "below" | "beneath" => true,
            "in" => likely,
            "from" | "of" | "at" | "across" | "through" => word.contains('/'),
            _ if is_noun(&before) || inside => likely,
            _ => word.ends_with('/') || word.starts_with("./"),
        }
    }

    /// `in README.md`, `compare a.md and b.md`, `README.md 里`.
    fn find_files(&mut self) {
        for at in 0..self.tokens.len() {
            let Some(text) = self.text(at).map(str::to_owned) else {
                continue;
            };
            let text = match text.to_lowercase().as_str() {
                "readme" | "changelog" | "contributing" => format!("{text}.md"),
                _ => text,
            };
            if self.used[at] || !is_file_name(&text) || text.contains("://") {
                continue;
            }
            let after_file = at >= 2 && self.used[at - 2] && self.text(at - 2).is_some();
            let named = match self.before(at).as_str() {
                "in" | "from" | "of" | "at" | "inside" | "within" | "under" | "compare"
                | "summarise" | "summarize" | "read" | "outline" | "explain" | "describe"
                | "does" | "do" | "files" | "between" => true,
                "and" | "or" | "with" | "to" => after_file,
                _ => after_file && self.tokens.get(at - 1) == Some(&Token::Comma),
            };
            let before = self.han_before(at);
            let han_named = [
                "在", "从", "读", "看", "总结", "比较", "对比", "概括", "文件",
            ]
            .iter()
            .any(|word| before.ends_with(word))
                || ["里", "中", "说", "讲", "写", "的"]
                    .iter()
                    .any(|word| self.han(at + 1).starts_with(word))
                || (after_file && ["和", "与", "跟"].contains(&before));
            if named || han_named {
                self.add_pattern(normal(&text));
                self.used[at] = true;
            }
        }
    }
}

/// The folder that a run of Han characters names, and the rest of the run: `在小说目录下` is about
/// `小说`.
fn han_folder(run: &str) -> Option<(String, String)> {
    let nouns = ["目录", "文件夹"].iter();
    let (at, noun) = nouns
        .filter_map(|noun| Some((run.find(noun)?, *noun)))
        .min()?;
    let name = subjects(&run[..at], false).pop()?;
    let name = name.trim_start_matches(['在', '从', '把', '本', '该', '下', '里']);
    let rest = run[at + noun.len()..].to_owned();
    (name.chars().count() >= 2).then(|| (name.to_owned(), rest))
}

/// A path without `./` before and `/` behind it.
fn normal(path: &str) -> String {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    if path.is_empty() {
        ".".into()
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests;

//! A folder as the recount sees it: read and counted by code that shares nothing with the
//! offline, nor with the tools of its driver.

use std::collections::BTreeMap;
use std::path::Path;

/// The folder as this code sees it.
pub(crate) struct Folder {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Folder {
    /// The files below `path` that one of the patterns admits.
    pub(crate) fn of(root: &Path, path: &str, only: &[&str]) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![path.to_owned()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(root.join(&folder)) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name().into_string().unwrap();
                let path = format!("{folder}/{name}");
                let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
                if name.starts_with('.') || path == "cairn-out" {
                    continue;
                }
                if entry.path().is_dir() {
                    folders.push(path);
                } else if only.is_empty() || only.iter().any(|end| path.ends_with(end)) {
                    files.insert(path, std::fs::read(entry.path()).unwrap());
                }
            }
        }
        Self { files }
    }

    pub(crate) fn is_binary(&self, path: &str) -> bool {
        self.files[path].contains(&0)
    }

    pub(crate) fn lines(&self, path: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.files[path]).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    /// Numbers of the lines of a file with a term.
    pub(crate) fn matches(&self, path: &str, term: &str) -> Vec<u64> {
        if self.is_binary(path) {
            return vec![];
        }
        let term = term.to_lowercase();
        let numbered = (1..).zip(self.lines(path));
        numbered
            .filter(|(_, l)| l.to_lowercase().contains(&term))
            .map(|(n, _)| n)
            .collect()
    }

    /// Files with a term, with its lines.
    pub(crate) fn matching(&self, term: &str) -> BTreeMap<String, Vec<u64>> {
        let all = self
            .files
            .keys()
            .map(|path| (path.clone(), self.matches(path, term)));
        all.filter(|(_, lines)| !lines.is_empty()).collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }

    pub(crate) fn binaries(&self) -> u64 {
        self.files
            .keys()
            .filter(|path| self.is_binary(path))
            .count() as u64
    }

    pub(crate) fn with(&self, terms: &[&str], fits: impl Fn(&[bool]) -> bool) -> Vec<String> {
        let has = |path: &String| -> Vec<bool> {
            terms
                .iter()
                .map(|term| !self.matches(path, term).is_empty())
                .collect()
        };
        self.files
            .keys()
            .filter(|path| fits(&has(path)))
            .cloned()
            .collect()
    }
}

pub(crate) fn is_heading(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    let code = [
        "fn ",
        "pub fn ",
        "struct ",
        "pub struct ",
        "impl ",
        "mod ",
        "trait ",
    ];
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("md") => line.starts_with("# ") || line.starts_with("## "),
        Some("py") => line.starts_with("def "),
        Some("rs") => code.iter().any(|word| line.starts_with(word)),
        _ => line.starts_with('第'),
    }
}

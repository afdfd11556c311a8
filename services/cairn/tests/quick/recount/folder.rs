//! A folder, counted.

use super::File;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The files of a folder that tools see.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) files: BTreeMap<String, Counted>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) path: String,
    bytes: Vec<u8>,
}

impl Folder {
    /// Writes the files; those that begin with a dot or stand in `target`, which `.gitignore`
    /// names, are not seen.
    pub(crate) fn write(root: &Path, files: &[File]) -> Self {
        fs::create_dir_all(root).expect("a folder");
        let mut folder = Self::default();
        for (name, bytes) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
            if !name.starts_with('.') && !name.starts_with("target/") {
                let counted = Counted {
                    path: (*name).to_owned(),
                    bytes: bytes.to_vec(),
                };
                folder.files.insert(counted.path.clone(), counted);
            }
        }
        folder
    }

    pub(crate) fn bytes(&self) -> usize {
        self.files.values().map(Counted::bytes).sum()
    }

    pub(crate) fn binaries(&self) -> usize {
        self.files.values().filter(|file| file.is_binary()).count()
    }

    /// Every line of text with a word, in upper or lower case, as path and number.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<(String, usize)> {
        let texts = self.files.values().filter(|file| !file.is_binary());
        texts
            .flat_map(|file| {
                let numbers = file.numbers_with(word).into_iter();
                numbers.map(|number| (file.path.clone(), number))
            })
            .collect()
    }

    /// The files with a word, and how many lines have it.
    pub(crate) fn files_with(&self, word: &str) -> usize {
        let has = |file: &&Counted| !file.is_binary() && !file.numbers_with(word).is_empty();
        self.files.values().filter(has).count()
    }
}

impl Counted {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_binary(&self) -> bool {
        self.bytes.contains(&0)
    }

    /// The lines without their ends; what is no UTF-8 is replaced.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn line(&self, number: usize) -> Option<String> {
        self.lines().into_iter().nth(number.checked_sub(1)?)
    }

    pub(crate) fn numbers_with(&self, word: &str) -> Vec<usize> {
        let lines = self.lines();
        let has = |line: &str| line.to_lowercase().contains(&word.to_lowercase());
        let numbers = (1..).zip(&lines).filter(|(_, line)| has(line));
        numbers.map(|(number, _)| number).collect()
    }
}

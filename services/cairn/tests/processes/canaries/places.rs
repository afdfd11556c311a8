//! Everything that the program printed or wrote.

use cairn_testkit::Output;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What the test itself wrote.
const INPUTS: [&str; 3] = ["cairn.toml", "record.sh", "stderr.txt"];

/// Texts by the place where they were found.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<String, String>);

impl Places {
    /// What a command printed.
    pub(crate) fn add(&mut self, command: &str, done: &Output) {
        self.0
            .insert(format!("{command}: output"), done.out.clone());
        self.0.insert(format!("{command}: logs"), done.err.clone());
    }

    /// What went another way.
    pub(crate) fn add_text(&mut self, place: &str, text: String) {
        self.0.insert(place.to_owned(), text);
    }

    /// All files of a folder, but those of the test and links.
    pub(crate) fn add_files(&mut self, root: &Path) {
        self.add_files_but(root, &INPUTS);
    }

    /// The same with other files of the test.
    pub(crate) fn add_files_but(&mut self, root: &Path, inputs: &[&str]) {
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path
                    .strip_prefix(root)
                    .expect("inside")
                    .display()
                    .to_string();
                if path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else if path.is_file() && !inputs.contains(&name.as_str()) {
                    let bytes = fs::read(&path).expect("a file");
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.0.insert(format!("file {name}"), text);
                }
            }
        }
    }

    /// The places where a text is.
    pub(crate) fn with(&self, text: &str) -> Vec<&str> {
        let found = self.0.iter().filter(|(_, said)| said.contains(text));
        found.map(|(place, _)| place.as_str()).collect()
    }

    /// Whether there is something at a place.
    pub(crate) fn has(&self, place: &str) -> bool {
        self.0.get(place).is_some_and(|said| !said.is_empty())
    }
}

//! The report, line by line.

use super::folder::{Counted, Folder};
use super::marked::{numbers, shape};
use std::collections::BTreeSet;

/// Lines that say nothing of the folder. Nouns are in the singular, as [`Reader::line`] has them.
const FIXED: [&str; 13] = [
    "",
    "# Report",
    "Goal: {}",
    "## File",
    "## Not read",
    "## How to read this",
    "### One line each",
    "Elsewhere:",
    "It begins:",
    "| file | bytes | line | kind |",
    "| file | bytes | line | kind | line with {} |",
    "| --- | ---: | ---: | --- |",
    "| --- | ---: | ---: | --- | ---: |",
];

/// What was read of a report.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What was searched for.
    pub(crate) word: Option<String>,
    /// Titles of the sections.
    pub(crate) sections: BTreeSet<String>,
    pub(crate) says_empty: bool,
    /// Lines that are quoted: the section, path and number.
    quoted: Vec<(String, (String, usize))>,
}

impl Found {
    /// The lines that are quoted for themselves in sections whose title begins so.
    pub(crate) fn quoted_in(&self, section: &str) -> BTreeSet<(String, usize)> {
        let here = self
            .quoted
            .iter()
            .filter(|(title, _)| title.starts_with(section));
        here.map(|(_, line)| line.clone()).collect()
    }
}

/// Reads a report, and counts again whatever it says.
pub(crate) fn check(report: &str, folder: &Folder) -> Found {
    let mut reader = Reader {
        folder,
        found: Found::default(),
        section: String::new(),
        promised: 0,
        is_list: false,
        rows: 0,
    };
    for line in report.lines() {
        reader.line(line);
    }
    reader.end_section();
    assert_eq!(reader.rows, folder.files.len(), "rows of the table");
    reader.found
}

struct Reader<'a> {
    folder: &'a Folder,
    found: Found,
    section: String,
    /// Headings or definitions that are still to come in this section.
    promised: usize,
    /// They have begun.
    is_list: bool,
    rows: usize,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        let (words, codes) = shape(line);
        let words = ["file", "File", "line", "Line", "heading", "definition"]
            .into_iter()
            .fold(words, |words, noun| {
                words.replace(&format!("{noun}s"), noun)
            });
        let (words, counts) = numbers(&words);
        if words.starts_with("# of # file in the workspace mention {}")
            || words == "## Line with {}"
        {
            self.found.word = Some(codes[0].clone());
        }
        if words.starts_with("## ") {
            self.end_section();
            line[3..].clone_into(&mut self.section);
            self.found.sections.insert(self.section.clone());
        }
        self.check_citations(&words, &codes);
        let known = FIXED.contains(&words.as_str())
            || words.starts_with("> Written by")
            || words.starts_with("Quoted line are word for word")
            || self.of_folder(&words, &codes, &counts)
            || self.of_search(&words, &codes, &counts)
            || self.of_file(&words, &codes, &counts);
        assert!(known, "a line of no known form: {words:?} {line}");
    }

    /// All that was promised has come.
    fn end_section(&mut self) {
        assert_eq!(self.promised, 0, "missing in {}", self.section);
        self.is_list = false;
    }

    fn file(&self, path: &str) -> &Counted {
        let file = self.folder.files.get(path);
        file.unwrap_or_else(|| panic!("there is no file {path}"))
    }

    /// Every place that is named is there, and has the line that is quoted before it.
    fn check_citations(&mut self, words: &str, codes: &[String]) {
        let between: Vec<&str> = words.split("{}").collect();
        for (at, code) in codes.iter().enumerate() {
            let Some((path, number)) = self.place(code) else {
                continue;
            };
            let line = self.file(&path).line(number);
            let line = line.unwrap_or_else(|| panic!("there is no line {path}:{number}"));
            let quote = at.checked_sub(1).map(|before| codes[before].as_str());
            match (between[at], quote) {
                (" (", Some(quote)) => assert_eq!(line.trim(), quote, "{path}:{number}"),
                ("… (", Some(quote)) => assert!(line.trim().starts_with(quote), "{line}"),
                // No quotation: the first of the lines that have the word.
                _ => {
                    let word = self.found.word.as_deref().expect("a search");
                    let first = self.file(&path).numbers_with(word).into_iter().next();
                    assert_eq!(first, Some(number), "{path}");
                }
            }
            if words.starts_with("- {}") && at == 1 {
                let place = (path, number);
                self.found.quoted.push((self.section.clone(), place));
            }
        }
    }

    /// `path:number`, if code is that. Code that looks so and names no file is a line of a file.
    fn place(&self, code: &str) -> Option<(String, usize)> {
        let (path, number) = code.rsplit_once(':')?;
        let number = number.parse().ok()?;
        self.folder
            .files
            .contains_key(path)
            .then(|| (path.to_owned(), number))
    }

    /// What is said of the folder as a whole.
    fn of_folder(&mut self, words: &str, codes: &[String], counts: &[usize]) -> bool {
        let (all, binaries) = (self.folder.files.len(), self.folder.binaries());
        let whole = [all, self.folder.bytes(), all - binaries, binaries];
        let said = "# file in the workspace, # bytes: # text, # binary. The largest: ";
        if words == "There are no file in the workspace." {
            assert_eq!(all, 0);
            self.found.says_empty = true;
        } else if words == "# file, # bytes: # text, # binary ({})." {
            assert_eq!(counts, whole);
            assert_eq!(codes, ["list_files ."]);
        } else if let Some((_, largest)) = words.split_once(said) {
            assert_eq!(counts[..4], whole);
            let count = largest.matches("{} (# bytes)").count();
            let named = codes[codes.len() - count..].iter();
            let named: Vec<_> = named.map(|path| self.file(path).bytes()).collect();
            assert_eq!(counts[4..], named);
            let mut sizes: Vec<_> = self.folder.files.values().map(Counted::bytes).collect();
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(named, sizes[..count], "the largest");
        } else if words == "- {} is binary: # bytes ({})." {
            let file = self.file(&codes[0]);
            assert!(file.is_binary());
            assert_eq!(counts, [file.bytes()]);
        } else {
            return self.is_row(words, codes, counts);
        }
        true
    }

    fn is_row(&mut self, words: &str, codes: &[String], counts: &[usize]) -> bool {
        if !words.starts_with("| {} | # | ") {
            return false;
        }
        self.rows += 1;
        let file = self.file(&codes[0]);
        let mut expected = vec![file.bytes()];
        if !file.is_binary() {
            expected.push(file.lines().len());
            let word = self.found.word.iter();
            expected.extend(word.map(|word| file.numbers_with(word).len()));
        }
        assert_eq!(counts, expected, "{codes:?}");
        words.contains(if file.is_binary() {
            "| binary |"
        } else {
            "| text |"
        })
    }

    /// What is said of a search.
    fn of_search(&mut self, words: &str, codes: &[String], counts: &[usize]) -> bool {
        if words == "## Line with {}" {
            return true;
        }
        let found = self.found.word.clone().unwrap_or_default();
        let matches = self.folder.lines_with(&found).len();
        let files = self.folder.files_with(&found);
        if words.starts_with("# of # file in the workspace mention {}, in # line: {}") {
            let mut expected = vec![files, self.folder.files.len(), matches];
            let binaries = Some(self.folder.binaries()).filter(|count| *count > 0);
            expected.extend(binaries);
            assert_eq!(counts, expected);
            return binaries.is_some() == words.ends_with("# binary file was not searched.");
        }
        if words == "# matching line in # file, in upper or lower case ({})." {
            assert_eq!(counts, [matches, files]);
            assert_eq!(codes, [format!("search_files \"{found}\" in .")]);
            return true;
        }
        if words == "### {}: # matching line ({})" {
            let file = self.file(&codes[0]);
            assert_eq!(counts, [file.numbers_with(&found).len()], "{codes:?}");
            return true;
        }
        false
    }

    /// What is said of one file. Quotations have been compared already.
    fn of_file(&mut self, words: &str, codes: &[String], counts: &[usize]) -> bool {
        match words {
            "## {}" => {
                self.file(&codes[0]);
            }
            "# heading in line # to # of # ({})." | "# definition in line # to # of # ({})." => {
                let path = codes[0].strip_prefix("read_file ").expect("what was read");
                let lines = self.file(path).lines().len();
                assert_eq!(self.section, format!("`{path}`"));
                assert_eq!(counts[1..], [1, lines, lines], "{path}");
                self.promised = counts[0];
            }
            "Its heading:" | "Its definition:" => self.is_list = true,
            "… and # more ({})." => self.promised -= counts[0],
            "Below {} ({}):" => assert!(self.place(&codes[1]).is_some(), "{codes:?}"),
            "- {} ({})" | "- {}… ({})" | "- {} ({}), below {} ({})" => {
                let places = codes.iter().skip(1).step_by(2);
                let are_places = places
                    .map(|code| self.place(code))
                    .all(|place| place.is_some());
                assert!(are_places, "{codes:?}");
                self.promised -= usize::from(self.is_list);
            }
            // The beginning of a file that tells of the folder stands before its counts.
            _ => return false,
        }
        true
    }
}

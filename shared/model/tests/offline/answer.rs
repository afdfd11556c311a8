//! Checks the answer, the first paragraph of a report: every number of files and lines in it, and
//! every place.

use crate::folder::Folder;
use crate::line::{Line, read};

impl Folder {
    /// Checks the answer for `terms`.
    pub(crate) fn check_answer(&self, text: &str, terms: &[&str]) {
        self.check_names(text, terms);
        let counts = text.rsplit_once(" begins: ").map_or(text, |(_, rest)| {
            let end = rest.find("`). ").unwrap();
            &rest[end + "`). ".len()..]
        });
        let plain = squeezed(counts);
        let files = self.files.len();
        let all = format!("{files} file{}", if files == 1 { "" } else { "s" });
        let begins = match terms {
            _ if files == 0 => "There are no files".to_owned(),
            [] => all,
            [term] => match self.matching(term).len() {
                0 => format!("None of {all}"),
                some => format!("{some} of {all}"),
            },
            _ => format!("Of {all}"),
        };
        assert!(plain.starts_with(&squeezed(&begins)), "{begins}: {text}");
        if files == 0 || terms.is_empty() {
            return;
        }
        for part in self.expected_parts(text, terms) {
            assert!(plain.contains(&squeezed(&part)), "{part}: {text}");
        }
        let binary = match self.binaries() {
            0 => String::new(),
            1 => ". 1 binary file was not searched.".to_owned(),
            more => format!(". {more} binary files were not searched."),
        };
        assert!(plain.ends_with(&squeezed(&binary)), "{binary}: {text}");
    }

    /// What the answer has to say besides.
    fn expected_parts(&self, text: &str, terms: &[&str]) -> Vec<String> {
        if let [term] = terms {
            let found = self.matching(term);
            let lines: usize = found.values().map(Vec::len).sum();
            let plural = if lines == 1 { "" } else { "s" };
            return match lines {
                0 => vec![format!("mentions {term}.")],
                _ => vec![format!("{term}, in {lines} line{plural}:")],
            };
        }
        let counted = |count: usize| match count {
            0 => "none mentions".to_owned(),
            1 => "1 mentions".to_owned(),
            more => format!("{more} mention"),
        };
        let count = |term: &&str| format!(" {} {term}", counted(self.matching(term).len()));
        let mut parts: Vec<String> = terms.iter().map(count).collect();
        let all = self.with(terms, |has| has.iter().all(|has| *has)).len();
        match text.rsplit_once("; at least ") {
            Some((_, least)) => assert!(read(least).numbers[0] <= all as u64, "{text}"),
            None if terms.len() == 2 => parts.push(format!("; {} both.", counted(all))),
            None => parts.push(format!("; {} all of them.", counted(all))),
        }
        parts
    }

    /// Every name is a file, a term or a part of the scope; every place is the first match of a
    /// term, or the line that is quoted before it.
    fn check_names(&self, text: &str, terms: &[&str]) {
        let mut codes = read(text).codes;
        if text.contains(" begins: ") {
            // The lines of the README, each with its place.
            let readme = codes.remove(0);
            while codes
                .get(1)
                .is_some_and(|code| code.starts_with(&format!("{readme}:")))
            {
                let rest = codes.split_off(2);
                self.check_quote(&Line::of(&codes), &readme);
                codes = rest;
            }
        }
        for code in &codes {
            if let Some((path, number)) = code.rsplit_once(':')
                && let Ok(number) = number.parse::<u64>()
            {
                let first = |term: &&str| self.matches(path, term).first() == Some(&number);
                assert!(terms.iter().any(first), "{code} is no first match");
                continue;
            }
            let known = terms.contains(&code.as_str()) || self.files.contains_key(code);
            let place = code.starts_with('*') || text.contains(&format!("under `{code}`"));
            assert!(known || place, "{code}: {text}");
        }
    }
}

/// Without what Markdown adds.
fn squeezed(text: &str) -> String {
    text.replace(['`', ' '], "")
}

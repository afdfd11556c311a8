//! Checks a report against the folder that it is about, by code that shares nothing with the
//! rehearsal: every line of the report has to be of a known shape, and every number, name and
//! quotation in it has to be what the folder says.

use std::collections::BTreeMap;
use std::path::Path;

/// The folder as this code sees it.
pub(crate) struct Folder {
    files: BTreeMap<String, Vec<u8>>,
}

/// A line of a report: its shape with `#` for numbers and `{}` for code, and what stood there.
#[derive(Debug)]
struct Line {
    shape: String,
    numbers: Vec<u64>,
    codes: Vec<String>,
}

/// What the lines of a report add up to.
#[derive(Default)]
struct Seen {
    section: String,
    term: String,
    path: String,
    heading: Option<u64>,
    /// Quoted lines of the term's section.
    quoted: Vec<(String, u64)>,
    more: Option<(u64, u64)>,
    /// The files of a group of the comparison that are still to be named.
    group: Vec<String>,
    counted: bool,
    outlined: u64,
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

    fn is_binary(&self, path: &str) -> bool {
        self.files[path].contains(&0)
    }

    fn lines(&self, path: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.files[path]).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    /// Numbers of the lines of a file with a term.
    fn matches(&self, path: &str, term: &str) -> Vec<u64> {
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
    fn matching(&self, term: &str) -> BTreeMap<String, Vec<u64>> {
        let all = self
            .files
            .keys()
            .map(|path| (path.clone(), self.matches(path, term)));
        all.filter(|(_, lines)| !lines.is_empty()).collect()
    }

    fn bytes(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }

    fn binaries(&self) -> u64 {
        self.files
            .keys()
            .filter(|path| self.is_binary(path))
            .count() as u64
    }

    /// Checks `report`; `place` is how it calls the folder, as in `under docs`.
    pub(crate) fn check(&self, report: &str, terms: &[&str]) {
        let mut seen = Seen::default();
        let mut lines = report.lines();
        let first = lines.next().unwrap();
        assert!(first.starts_with("> Written by Cairn's rehearsal model: rule-based, no language"));
        for text in lines.filter(|line| !line.is_empty()) {
            let line = read(text);
            self.check_line(&line, text, terms, &mut seen);
        }
        self.end_section(&mut seen);
        assert_eq!(seen.section, "How to read this");
        assert!(seen.counted, "the files are not counted");
    }

    fn check_line(&self, line: &Line, text: &str, terms: &[&str], seen: &mut Seen) {
        if let Some(section) = text.strip_prefix("## ") {
            self.end_section(seen);
            *seen = Seen {
                section: section.to_owned(),
                term: line.codes.first().cloned().unwrap_or_default(),
                counted: seen.counted,
                ..Seen::default()
            };
            return;
        }
        let known = match seen.section.as_str() {
            "" => self.check_top(line, text, terms, seen),
            "Files" => self.check_files(line, text, terms, seen),
            "Comparison" => self.check_comparison(line, terms, seen),
            "Not read" => self.check_unread(line),
            "How to read this" => text.starts_with("Quoted lines are word for word"),
            section if section.starts_with("Lines with ") => self.check_lines(line, seen),
            _ => self.check_outline(line, seen),
        };
        assert!(known, "unknown in {:?}: {text}\n{line:?}", seen.section);
    }

    fn check_top(&self, line: &Line, text: &str, terms: &[&str], seen: &mut Seen) -> bool {
        if text == "# Report" || line.shape == "Goal: {}" {
            return true;
        }
        seen.counted = true;
        self.check_answer(text, terms);
        true
    }

    /// The answer: every number of files for a term, and every place.
    pub(crate) fn check_answer(&self, text: &str, terms: &[&str]) {
        let line = read(text);
        let files = self.files.len() as u64;
        for code in &line.codes {
            if let Some((path, number)) = code.rsplit_once(':')
                && let Ok(number) = number.parse::<u64>()
            {
                let of_term = |term: &&&str| self.matches(path, term).first() == Some(&number);
                assert!(
                    terms.iter().any(|term| of_term(&term)),
                    "{code} is no first match"
                );
            } else {
                let known = terms.contains(&code.as_str()) || self.files.contains_key(code);
                let place = code.starts_with('*') || text.contains(&format!("under `{code}`"));
                assert!(known || place, "{code}: {text}");
            }
        }
        let text = &text.replace('`', "");
        if files == 0 {
            assert!(text.starts_with("There are no files "), "{text}");
            return;
        }
        let binary = match self.binaries() {
            0 => String::new(),
            1 => " 1 binary file was not searched.".to_owned(),
            more => format!(" {more} binary files were not searched."),
        };
        let all = format!("{files} file{}", if files == 1 { "" } else { "s" });
        match terms {
            [] => assert!(text.starts_with(&format!("{all} ")), "{text}"),
            [term] => {
                let found = self.matching(term);
                let lines: usize = found.values().map(Vec::len).sum();
                assert!(text.ends_with(&format!(".{binary}")), "{text}");
                if found.is_empty() {
                    assert!(text.starts_with(&format!("None of {all} ")), "{text}");
                } else {
                    assert!(
                        text.starts_with(&format!("{} of {all} ", found.len())),
                        "{text}"
                    );
                    assert!(
                        squeezed(text).contains(&squeezed(&format!("{term}, in {lines} line"))),
                        "{text}"
                    );
                }
            }
            terms => {
                assert!(text.starts_with(&format!("Of {all} ")), "{text}");
                for term in terms {
                    let count = match self.matching(term).len() {
                        0 => "none mentions".to_owned(),
                        1 => "1 mentions".to_owned(),
                        more => format!("{more} mention"),
                    };
                    assert!(
                        text.contains(&format!(" {count} {term}")),
                        "{count}: {text}"
                    );
                }
                let all = self.with(terms, |has| has.iter().all(|has| *has)).len();
                if let Some((_, least)) = text.rsplit_once("; at least ") {
                    let least = read(least).numbers[0];
                    assert!(least <= all as u64, "{text}");
                    return;
                }
                let all = match all {
                    0 => "none mentions".to_owned(),
                    1 => "1 mentions".to_owned(),
                    more => format!("{more} mention"),
                };
                let every = if terms.len() == 2 {
                    "both"
                } else {
                    "all of them"
                };
                assert!(
                    text.contains(&format!("; {all} {every}.{binary}")),
                    "{all}: {text}"
                );
            }
        }
    }

    fn check_files(&self, line: &Line, text: &str, terms: &[&str], seen: &mut Seen) -> bool {
        match line.shape.as_str() {
            "# file, # byte: # text, # binary ({})." => {
                let (files, binary) = (self.files.len() as u64, self.binaries());
                assert_eq!(line.numbers, [files, self.bytes(), files - binary, binary]);
                true
            }
            "… and # more file, none of them larger ({})." => {
                assert_eq!(
                    line.numbers[0],
                    (self.files.len() - seen.quoted.len()) as u64
                );
                let size = |path: &String| self.files[path].len();
                let shown: Vec<&String> = seen.quoted.iter().map(|(path, _)| path).collect();
                let smallest = shown.iter().map(|path| size(path)).min().unwrap();
                let rest = self.files.keys().filter(|path| !shown.contains(path));
                rest.map(size).for_each(|size| assert!(size <= smallest));
                true
            }
            "… and # more file ({})." => {
                line.numbers[0] == (self.files.len() - seen.quoted.len()) as u64
            }
            _ if text.starts_with("| file ") || text.starts_with("| --- ") => true,
            _ if text.starts_with("| `") => {
                self.check_row(text, terms, seen);
                true
            }
            _ => false,
        }
    }

    fn check_row(&self, text: &str, terms: &[&str], seen: &mut Seen) {
        let text = text.replace("\\|", "\u{1}");
        let cells: Vec<&str> = text
            .split(" | ")
            .map(|c| c.trim_matches(['|', ' ']))
            .collect();
        let path = read(cells[0]).codes[0].replace('\u{1}', "|");
        let bytes = &self.files[&path];
        let binary = self.is_binary(&path);
        let lines = self.lines(&path).len().to_string();
        assert_eq!(cells[1], bytes.len().to_string(), "{path}");
        assert_eq!(cells[2], if binary { "-" } else { &lines }, "{path}");
        assert_eq!(cells[3], if binary { "binary" } else { "text" });
        for (cell, term) in cells[4..].iter().zip(terms) {
            let count = self.matches(&path, term).len().to_string();
            assert_eq!(*cell, if binary { "-" } else { &count }, "{path} {term}");
        }
        seen.quoted.push((path, 0));
    }

    fn check_lines(&self, line: &Line, seen: &mut Seen) -> bool {
        let all = self.matching(&seen.term);
        match line.shape.as_str() {
            "# matching line in # file, in upper or lower case ({})." => {
                let lines: usize = all.values().map(Vec::len).sum();
                assert_eq!(
                    line.numbers,
                    [lines as u64, all.len() as u64],
                    "{}",
                    seen.term
                );
            }
            "### One line each" => seen.path.clear(),
            "### {}: # matching line ({})" => {
                seen.path = line.codes[0].clone();
                seen.heading = None;
                let lines = &all[&seen.path];
                assert_eq!(line.numbers, [lines.len() as u64], "{}", seen.path);
                assert_eq!(line.codes[1], format!("{}:{}", seen.path, lines[0]));
            }
            "- {} ({}), below {} ({})" | "- {} … ({}), below {} ({})" => {
                let path = line.codes[1].rsplit_once(':').unwrap().0.to_owned();
                let number = self.check_quote(line, &path);
                let heading = Line {
                    shape: String::new(),
                    numbers: vec![],
                    codes: line.codes[2..].to_vec(),
                };
                self.check_heading(&path, self.check_quote(&heading, &path), number);
                assert_eq!(all[&path], [number]);
                seen.quoted.push((path, number));
            }
            "Below {} ({}):" | "Below {} … ({}):" => {
                seen.heading = Some(self.check_quote(line, &seen.path));
            }
            "Elsewhere:" => seen.heading = None,
            "- {} ({})" | "- {} … ({})" => {
                if seen.path.is_empty() {
                    let path = line.codes[1].rsplit_once(':').unwrap().0.to_owned();
                    assert_eq!(all[&path].len(), 1);
                    seen.quoted
                        .push((path.clone(), self.check_quote(line, &path)));
                    return true;
                }
                let number = self.check_quote(line, &seen.path);
                assert!(
                    all[&seen.path].contains(&number),
                    "{} has no match",
                    line.codes[1]
                );
                let quoted = (seen.path.clone(), number);
                assert!(!seen.quoted.contains(&quoted));
                seen.quoted.push(quoted);
                if let Some(heading) = seen.heading {
                    self.check_heading(&seen.path, heading, number);
                }
            }
            "… and # more matching line in # file ({})." => {
                seen.more = Some((line.numbers[0], line.numbers[1]));
            }
            _ => return false,
        }
        true
    }

    /// No heading stands between the one that is named and the line that is said to be below it.
    fn check_heading(&self, path: &str, heading: u64, number: u64) {
        let lines = self.lines(path);
        let is_heading = |number: &u64| is_heading(path, &lines[*number as usize - 1]);
        assert!(is_heading(&heading), "{path}:{heading} is no heading");
        assert!(heading < number, "{path}:{heading} is not above {number}");
        // The test folders have fenced blocks only in files named so.
        if !path.contains("fenced") {
            assert_eq!(
                (heading + 1..number).find(is_heading),
                None,
                "{path}:{number}"
            );
        }
    }

    fn check_comparison(&self, line: &Line, terms: &[&str], seen: &mut Seen) -> bool {
        let shape = line
            .shape
            .replace(", {}", "")
            .replace(" {},", "")
            .replace(":", ".");
        let count = line.numbers.first().copied();
        if shape == "- {} ({})" {
            let path = &line.codes[0];
            assert!(seen.group.contains(path), "{path} does not belong there");
            seen.group.retain(|other| other != path);
            let firsts = terms.iter().filter_map(|term| {
                let first = self.matches(path, term).first().copied()?;
                Some(format!("{path}:{first}"))
            });
            assert_eq!(line.codes[1..], firsts.collect::<Vec<_>>());
            return true;
        }
        if shape == "… and # more file ({})." {
            assert_eq!(count, Some(seen.group.len() as u64));
            seen.group.clear();
            return true;
        }
        if shape.starts_with("Not every matching file was noted") {
            return true;
        }
        assert_eq!(seen.group, Vec::<String>::new(), "files are missing");
        seen.group =
            if shape.starts_with("# file with both ") || shape.starts_with("# file with all") {
                self.with(terms, |has| has.iter().all(|has| *has))
            } else if shape.starts_with("# file with only ") {
                let at = terms
                    .iter()
                    .position(|term| *term == line.codes[0])
                    .unwrap();
                self.with(terms, |has| {
                    has.iter().enumerate().all(|(i, has)| *has == (i == at))
                })
            } else {
                return false;
            };
        assert_eq!(count, Some(seen.group.len() as u64), "{line:?}");
        true
    }

    fn with(&self, terms: &[&str], fits: impl Fn(&[bool]) -> bool) -> Vec<String> {
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

    fn check_unread(&self, line: &Line) -> bool {
        let path = line.codes.first().map(String::as_str).unwrap_or_default();
        match line.shape.as_str() {
            "- {} is binary: # byte ({})." => {
                self.is_binary(path) && self.files[path].len() as u64 == line.numbers[0]
            }
            "- {} was searched, and not read: # byte, more than # ({})." => {
                self.files[path].len() as u64 == line.numbers[0]
                    && line.numbers[0] > line.numbers[1]
            }
            "- {} could not be read: {} ({})." => self.files.contains_key(path),
            "- … and # more binary file ({})." => line.numbers[0] < self.binaries(),
            _ => false,
        }
    }

    fn check_outline(&self, line: &Line, seen: &mut Seen) -> bool {
        let path = seen.term.clone();
        match line.shape.as_str() {
            "# heading in lines # to # of # ({})." | "# definition in lines # to # of # ({})." => {
                assert_eq!(line.numbers[3], self.lines(&path).len() as u64);
                let read = &self.lines(&path)[..line.numbers[2] as usize];
                let headings = read.iter().filter(|line| is_heading(&path, line)).count();
                assert_eq!(line.numbers[0], headings as u64, "{path}");
                assert_eq!(line.numbers[1], 1);
                seen.more = Some((line.numbers[0], 0));
            }
            "It begins:" => {}
            "Its heading:" | "Its definition:" => seen.heading = Some(0),
            "- {} ({})" | "- {} … ({})" => {
                let number = self.check_quote(line, &path);
                if seen.heading.is_some() {
                    self.check_heading(&path, number, number + 1);
                    seen.outlined += 1;
                }
            }
            "… and # more ({})." => seen.outlined += line.numbers[0],
            _ => return false,
        }
        true
    }

    /// A quotation is the line that it says it is; the number of the line.
    fn check_quote(&self, line: &Line, path: &str) -> u64 {
        let (quote, place) = (&line.codes[0], &line.codes[1]);
        let (quoted_path, number) = place.rsplit_once(':').unwrap();
        assert_eq!(quoted_path, path);
        let number: u64 = number.parse().unwrap();
        let whole = self.lines(path)[number as usize - 1].trim().to_owned();
        let whole: String = whole
            .chars()
            .map(|c| match c as u32 {
                9 => c,
                code if code < 32 => char::from_u32(0x2400 + code).unwrap(),
                _ => c,
            })
            .collect();
        if line.shape.contains(" … ") {
            assert!(whole.starts_with(quote.as_str()), "{place}: {quote}");
            assert!(whole.len() > quote.len(), "{place} is not cut");
        } else {
            assert_eq!(*quote, whole, "{place}");
        }
        number
    }

    /// What is quoted and what is said to be left out is everything.
    fn end_section(&self, seen: &mut Seen) {
        if seen.section.starts_with("Lines with ") {
            let all = self.matching(&seen.term);
            let lines: usize = all.values().map(Vec::len).sum();
            let rest = lines - seen.quoted.len();
            let hidden = |(path, lines): &(&String, &Vec<u64>)| {
                lines
                    .iter()
                    .any(|line| !seen.quoted.contains(&((*path).clone(), *line)))
            };
            let files = all.iter().filter(hidden).count();
            assert_eq!(
                seen.more.unwrap_or_default(),
                (rest as u64, files as u64),
                "{}",
                seen.term
            );
        }
        assert_eq!(seen.group, Vec::<String>::new(), "files are missing");
        if let (Some((headings, 0)), false) = (seen.more, seen.section.starts_with("Lines")) {
            assert_eq!(seen.outlined, headings, "{}", seen.section);
        }
    }
}

/// Without what Markdown adds.
fn squeezed(text: &str) -> String {
    text.replace(['`', ' '], "")
}

fn is_heading(path: &str, line: &str) -> bool {
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

/// Takes a line apart.
fn read(text: &str) -> Line {
    let chars: Vec<char> = text.chars().collect();
    let (mut shape, mut numbers, mut codes) = (String::new(), vec![], vec![]);
    let mut at = 0;
    while at < chars.len() {
        let fence = chars[at..].iter().take_while(|c| **c == '`').count();
        let digits = chars[at..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count();
        if fence > 0 {
            let from = at + fence;
            let is_end = |end: &usize| {
                chars[*end..].iter().take_while(|c| **c == '`').count() == fence
                    && chars[*end - 1] != '`'
            };
            let end = (from..chars.len()).find(is_end).unwrap();
            let code: String = chars[from..end].iter().collect();
            codes.push(if fence > 1 {
                code[1..code.len() - 1].to_owned()
            } else {
                code
            });
            shape += "{}";
            at = end + fence;
        } else if digits > 0 {
            let number: String = chars[at..at + digits].iter().collect();
            numbers.push(number.parse().unwrap());
            shape += "#";
            at += digits;
        } else {
            shape.push(chars[at]);
            at += 1;
        }
    }
    for noun in ["file", "line", "byte", "heading", "definition"] {
        shape = shape.replace(&format!(" {noun}s in lines"), &format!(" {noun} in lines"));
        for (plural, end) in [
            (" in", " in"),
            (",", ","),
            (":", ":"),
            (" with", " with"),
            (" (", " ("),
        ] {
            shape = shape.replace(&format!("{noun}s{plural}"), &format!("{noun}{end}"));
        }
    }
    Line {
        shape,
        numbers,
        codes,
    }
}

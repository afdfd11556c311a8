//! Checks a report against the folder that it is about, by code that shares nothing with the
//! offline: every line of the report has to be of a known shape, and every number, name and
//! quotation in it has to be what the folder says.

use crate::folder::{Folder, is_heading};
use crate::line::{Line, read};

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
    /// Files that the section names, and those that it counts as further ones.
    named: u64,
    further: u64,
}

impl Folder {
    /// Checks `report`, which is on `terms`, or on how files begin if there are none.
    pub(crate) fn check(&self, report: &str, terms: &[&str]) {
        let mut seen = Seen::default();
        let mut lines = report.lines();
        let first = lines.next().unwrap();
        assert!(first.starts_with("> Written by Cairn's offline model: rule-based, no language"));
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
            "Not read" => self.check_unread(line, seen),
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

    fn check_files(&self, line: &Line, text: &str, terms: &[&str], seen: &mut Seen) -> bool {
        match line.shape.as_str() {
            "# file, # byte: # text, # binary ({})." => {
                let (files, binary) = (self.files.len() as u64, self.binaries());
                assert_eq!(line.numbers, [files, self.bytes(), files - binary, binary]);
                true
            }
            "… and # more file, none of them larger ({})." => {
                let size = |path: &String| self.files[path].len();
                let shown: Vec<&String> = seen.quoted.iter().map(|(path, _)| path).collect();
                let smallest = shown.iter().map(|path| size(path)).min().unwrap();
                let rest = self.files.keys().filter(|path| !shown.contains(path));
                rest.map(size).for_each(|size| assert!(size <= smallest));
                seen.further = line.numbers[0];
                true
            }
            "… and # more file ({})." => {
                seen.further = line.numbers[0];
                true
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
                let heading = Line::of(&line.codes[2..]);
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

    fn check_unread(&self, line: &Line, seen: &mut Seen) -> bool {
        let path = line.codes.first().map(String::as_str).unwrap_or_default();
        match line.shape.as_str() {
            "- {} is binary: # byte ({})." => {
                seen.named += 1;
                self.is_binary(path) && self.files[path].len() as u64 == line.numbers[0]
            }
            "- … and # more binary file ({})." => {
                seen.further = line.numbers[0];
                true
            }
            "- {} was searched, and not read: # byte, more than # ({})." => {
                self.files[path].len() as u64 == line.numbers[0]
                    && line.numbers[0] > line.numbers[1]
            }
            "- {} could not be read: {} ({})." => self.files.contains_key(path),
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
    pub(crate) fn check_quote(&self, line: &Line, path: &str) -> u64 {
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
        let files = self.files.len() as u64;
        match seen.section.as_str() {
            "Files" => assert_eq!(seen.quoted.len() as u64 + seen.further, files),
            "Not read" => assert_eq!(seen.named + seen.further, self.binaries()),
            _ => {}
        }
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

#[test]
fn every_digit_and_every_quotation_counts() {
    let dir = tempfile::tempdir().unwrap();
    crate::folders::docs(dir.path());
    let goal = "Compare \"Redis\" and \"Valkey\" under docs";
    let report = crate::driver::Stage::new(dir.path())
        .run(goal)
        .report
        .unwrap();
    let folder = Folder::of(dir.path(), "docs", &[]);
    folder.check(&report, &["Redis", "Valkey"]);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut unnoticed = Vec::new();
    let end = report.find("## How to read this").unwrap();
    for (at, byte) in report.bytes().enumerate().take(end) {
        let quoted = report.is_char_boundary(at) && report[..at].ends_with("- `");
        if !byte.is_ascii_digit() && !quoted {
            continue;
        }
        let mut changed = report.clone().into_bytes();
        changed[at] = if byte == b'7' { b'8' } else { b'7' };
        let changed = String::from_utf8(changed).unwrap();
        let check = || folder.check(&changed, &["Redis", "Valkey"]);
        if std::panic::catch_unwind(check).is_ok() {
            unnoticed.push(report[..=at].lines().last().unwrap().to_owned());
        }
    }
    std::panic::set_hook(hook);
    assert_eq!(unnoticed, Vec::<String>::new());
}

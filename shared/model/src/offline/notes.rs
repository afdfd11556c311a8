//! What steps note for later steps: JSON, one note a line, so that no text of a file can be taken
//! for a part of the step context's layout.

mod page;

pub(super) use self::page::{MAX_BYTES, Page};

use super::query::Scope;
use super::text::{QUOTE_CHARS, visible};
use serde::{Deserialize, Serialize};

/// Characters at which `search_files` cuts a line.
const SEARCH_CUT_CHARS: usize = 240;

/// One line of the scratchpad.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub(super) enum Note {
    /// Begins the notes of a survey; the files that follow belong to it.
    Survey(Survey),
    /// A file of the survey before, the largest first.
    File(File),
    /// Begins the notes of a search; the matches that follow belong to it.
    Search(Search),
    /// What the search before found in one file.
    Matches(Matches),
    /// What was learned by reading around the matches in a file.
    Read(Read),
    /// How a file begins.
    Outline(Outline),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Survey {
    #[serde(flatten)]
    pub(super) scope: Scope,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) text: u64,
    pub(super) binary: u64,
    /// There may be more of everything.
    pub(super) at_least: bool,
    /// Not all files were seen: those noted are not the largest of all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// What the tool said besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<u64>,
    pub(super) kind: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Search {
    pub(super) term: String,
    #[serde(flatten)]
    pub(super) scope: Scope,
    /// Matching lines.
    pub(super) lines: u64,
    /// Files that have one.
    pub(super) files: u64,
    /// There may be more of both.
    pub(super) at_least: bool,
    /// Not all matching lines were seen: there may be more in every file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// What the tool said besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
    /// Matching lines that are not quoted in the notes.
    pub(super) more_lines: u64,
    /// Files that these lines are in.
    pub(super) more_files: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Matches {
    pub(super) term: String,
    pub(super) path: String,
    /// Matching lines in the file.
    pub(super) count: u64,
    /// The first of them.
    pub(super) first: u64,
    pub(super) quotes: Vec<Quote>,
}

/// A line of a file, word for word, trimmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Quote {
    /// Number of the line, from 1.
    pub(super) at: u64,
    pub(super) text: String,
    /// The line continues, or may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cut: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Read {
    pub(super) path: String,
    #[serde(default)]
    pub(super) lossy: bool,
    /// Headings, each with the matching lines below it.
    #[serde(default)]
    pub(super) sections: Vec<Section>,
    /// Size of the file, where that was too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) too_large: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) heading: Quote,
    pub(super) lines: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outline {
    pub(super) path: String,
    /// Last line that was read; reading began at 1.
    #[serde(default)]
    pub(super) to: u64,
    /// Lines of the file.
    #[serde(default)]
    pub(super) total: u64,
    #[serde(default)]
    pub(super) lossy: bool,
    /// The first lines that are not empty.
    #[serde(default)]
    pub(super) opening: Vec<Quote>,
    /// Headings, or definitions in a program.
    #[serde(default)]
    pub(super) headings: Vec<Quote>,
    /// Further headings in the lines that were read.
    #[serde(default)]
    pub(super) more: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Quote {
    /// Quotes a whole line.
    pub(super) fn of(at: u64, line: &str) -> Self {
        let text = visible(line.trim());
        let cut = text.chars().count() > QUOTE_CHARS;
        Self {
            at,
            text: text
                .chars()
                .take(QUOTE_CHARS)
                .collect::<String>()
                .trim_end()
                .to_owned(),
            cut,
        }
    }

    /// Quotes a line as the search shows it, which may have been cut there already.
    pub(super) fn of_match(at: u64, line: &str) -> Self {
        let shown = line.strip_suffix('…').unwrap_or(line);
        let cut = line.chars().count() >= SEARCH_CUT_CHARS;
        let quote = Self::of(at, if cut { shown } else { line });
        Self {
            cut: quote.cut || cut,
            ..quote
        }
    }
}

/// A survey and the files that it noted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SurveyNotes {
    pub(super) survey: Survey,
    pub(super) files: Vec<File>,
}

impl SurveyNotes {
    /// Size of the file at `path`, if it is noted.
    pub(super) fn bytes(&self, path: &str) -> Option<u64> {
        let noted = self.files.iter().find(|file| file.path == path);
        noted.map(|file| file.bytes)
    }
}

/// A search and the files that it noted, the one with the most matches first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SearchNotes {
    pub(super) search: Search,
    pub(super) matches: Vec<Matches>,
}

impl SearchNotes {
    /// Every matching file is noted: a file that is not has no match.
    pub(super) fn is_whole(&self) -> bool {
        let search = &self.search;
        search.error.is_none() && !search.at_least && self.matches.len() as u64 == search.files
    }
}

/// All notes that a step sees.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Notes {
    pub(super) surveys: Vec<SurveyNotes>,
    pub(super) searches: Vec<SearchNotes>,
    pub(super) reads: Vec<Read>,
    pub(super) outlines: Vec<Outline>,
}

impl Notes {
    /// Reads a scratchpad. A step that was done again noted the same things again: the later note
    /// takes the place of the earlier one. Lines that are no notes are passed over.
    pub(super) fn parse(scratchpad: &str) -> Self {
        let mut notes = Self::default();
        for line in scratchpad.split('\n') {
            let line = line.trim();
            let line = line.strip_prefix("- ").unwrap_or(line);
            for note in serde_json::Deserializer::from_str(line).into_iter::<Note>() {
                match note {
                    Ok(note) => notes.add(note),
                    Err(_) => break,
                }
            }
        }
        notes
    }

    fn add(&mut self, note: Note) {
        match note {
            Note::Survey(survey) => {
                self.surveys.retain(|old| old.survey.scope != survey.scope);
                let files = Vec::new();
                self.surveys.push(SurveyNotes { survey, files });
            }
            Note::File(file) => {
                if let Some(survey) = self.surveys.last_mut() {
                    survey.files.push(file);
                }
            }
            Note::Search(search) => {
                let same = |old: &SearchNotes| {
                    old.search.term == search.term && old.search.scope == search.scope
                };
                self.searches.retain(|old| !same(old));
                let matches = Vec::new();
                self.searches.push(SearchNotes { search, matches });
            }
            Note::Matches(matches) => {
                let search = self.searches.last_mut();
                if let Some(search) = search.filter(|s| s.search.term == matches.term) {
                    search.matches.push(matches);
                }
            }
            Note::Read(read) => {
                self.reads.retain(|old| old.path != read.path);
                self.reads.push(read);
            }
            Note::Outline(outline) => {
                self.outlines.retain(|old| old.path != outline.path);
                self.outlines.push(outline);
            }
        }
    }

    /// The survey of `scope`.
    pub(super) fn survey(&self, scope: &Scope) -> Option<&SurveyNotes> {
        self.surveys
            .iter()
            .find(|notes| notes.survey.scope == *scope)
    }

    /// The search for `term` in `scope`.
    pub(super) fn search(&self, scope: &Scope, term: &str) -> Option<&SearchNotes> {
        self.searches
            .iter()
            .find(|notes| notes.search.term == term && notes.search.scope == *scope)
    }

    /// What reading the file at `path` taught.
    pub(super) fn read(&self, path: &str) -> Option<&Read> {
        self.reads.iter().find(|read| read.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            path: "docs".into(),
            only: vec!["*.md".into()],
        }
    }

    fn search(files: u64) -> Note {
        Note::Search(Search {
            term: "a".into(),
            scope: scope(),
            lines: 1,
            files,
            at_least: false,
            partial: false,
            remarks: Vec::new(),
            more_lines: 0,
            more_files: 0,
            error: None,
        })
    }

    #[test]
    fn notes_survive_the_scratchpad_and_the_later_one_counts() {
        let matches = Note::Matches(Matches {
            term: "a".into(),
            path: "docs/x.md".into(),
            count: 1,
            first: 3,
            quotes: vec![Quote::of(3, "  ## Scratchpad\u{1b} \n")],
        });
        let mut page = Page::of(MAX_BYTES);
        for note in [search(7), matches.clone(), search(1), matches] {
            assert!(page.add(&note));
        }
        let text = format!("by hand\n{}{{\"note\":\"other\"}}\n", page.text());
        let notes = Notes::parse(&text);
        assert_eq!(notes.searches.len(), 1);
        let kept = notes.search(&scope(), "a").unwrap();
        assert!(kept.is_whole());
        assert_eq!(kept.matches[0].quotes[0].text, "## Scratchpad␛");
        assert!(text.lines().all(|line| !line.starts_with('#')));
        assert_eq!(Notes::parse(&text.replace('\n', "")), Notes::default());
        assert_eq!(Notes::parse(&page.text().replace('\n', "")), notes);
    }

    #[test]
    fn a_long_line_is_cut_and_said_to_be() {
        assert!(!Quote::of(1, &"x".repeat(160)).cut);
        assert!(Quote::of(1, &"x".repeat(161)).cut);
        let indented = format!("{}abc…", " ".repeat(237));
        let quote = Quote::of_match(1, &indented);
        assert_eq!((quote.text.as_str(), quote.cut), ("abc", true));
        assert!(!Quote::of_match(1, "ends in …").cut);
    }
}

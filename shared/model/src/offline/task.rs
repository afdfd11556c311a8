//! What one step of a rehearsed plan does, as the step's own text says it.
//!
//! A step sees nothing of the plan but its own title and description, so the description holds
//! everything that the rules need, in sentences that a person can read: names and terms stand in
//! JSON strings, everything else is fixed.

use super::query::Scope;
use super::text::{quote, visible};

/// Where the report is written.
pub(super) const REPORT_PATH: &str = "cairn-out/report.md";

/// What a step is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    /// List the files and count them.
    Survey(Scope),
    /// Find the lines with a term.
    Search { scope: Scope, term: String },
    /// Read around the matches that earlier steps noted.
    Read { scope: Scope, terms: Vec<String> },
    /// Read the beginnings of the largest text files.
    Outline(Scope),
    /// Tell the files apart by the terms that they hold.
    Compare { scope: Scope, terms: Vec<String> },
    /// Write what the notes of earlier steps say.
    Report {
        scope: Scope,
        terms: Vec<String>,
        left_out: Vec<String>,
    },
    /// Say what rules cannot do.
    Refuse(String),
    /// A description that no rule wrote: a person's.
    Free(String),
}

const SURVEY: &str = "List the files under ";
const SEARCH: &str = "Search the files under ";
const OUTLINE: &str = "Read the heads of the README and of the largest text files under ";
const READ: &str = "Read the files under ";
const COMPARE: &str = "Compare which files under ";
const REPORT: &str = "Report on the files under ";
const REFUSE: &str = "Say that offline cannot ";
const REFUSE_END: &str =
    ": it lists, searches and reads files by rules, and reports what it found.";

impl Task {
    /// Title of the step that does this.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Survey(scope) if scope.path == "." => "Survey the workspace".into(),
            Self::Survey(scope) => format!("Survey {}", visible(&scope.path)),
            Self::Search { term, .. } => format!("Search for {}", quote(term)),
            Self::Read { .. } => "Read the matches".into(),
            Self::Outline(_) => "Read how the files begin".into(),
            Self::Compare { .. } => "Compare".into(),
            Self::Report { .. } => "Write the report".into(),
            Self::Refuse(_) => "Say what cannot be rehearsed".into(),
            Self::Free(_) => String::new(),
        }
    }

    /// Description of the step that does this; [`Task::parse`] reads it back.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Survey(scope) => format!(
                "{SURVEY}{} and note how many there are, how large and of which kind.",
                place(scope)
            ),
            Self::Search { scope, term } => format!(
                "{SEARCH}{} for {} and note every matching line.",
                place(scope),
                quote(term)
            ),
            Self::Read { scope, terms } => format!(
                "{READ}{} around the lines that match {} and note the heading above each match.",
                place(scope),
                list(terms)
            ),
            Self::Outline(scope) => format!(
                "{OUTLINE}{} and note how they begin and their headings.",
                place(scope)
            ),
            Self::Compare { scope, terms } => {
                format!(
                    "{COMPARE}{} mention which of {}.",
                    place(scope),
                    list(terms)
                )
            }
            Self::Report {
                scope,
                terms,
                left_out,
            } => report(scope, terms, left_out),
            Self::Refuse(reason) => format!("{REFUSE}{reason}{REFUSE_END}"),
            Self::Free(description) => description.clone(),
        }
    }

    /// Reads a step's description.
    pub(super) fn parse(description: &str) -> Self {
        Self::known(description.trim()).unwrap_or_else(|| Self::Free(description.to_owned()))
    }

    fn known(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(REFUSE) {
            return Some(Self::Refuse(rest.strip_suffix(REFUSE_END)?.to_owned()));
        }
        let openings = [SURVEY, SEARCH, OUTLINE, READ, COMPARE, REPORT];
        let opening = openings.into_iter().find(|o| text.starts_with(o))?;
        let (scope, terms, left_out) = parts(&text[opening.len()..])?;
        let first = terms.first().cloned();
        let task = match opening {
            SURVEY => Self::Survey(scope),
            OUTLINE => Self::Outline(scope),
            SEARCH => Self::Search {
                scope,
                term: first?,
            },
            REPORT => Self::Report {
                scope,
                terms,
                left_out,
            },
            READ => first.map(|_| Self::Read { scope, terms })?,
            _ => first.map(|_| Self::Compare { scope, terms })?,
        };
        Some(task)
    }
}

fn report(scope: &Scope, terms: &[String], left_out: &[String]) -> String {
    let about = match terms {
        [] => String::new(),
        terms => format!(" about {}", list(terms)),
    };
    let beyond = match left_out {
        [] => String::new(),
        terms => format!(
            " Not searched for, since an offline model takes at most {} terms: {}.",
            super::query::MAX_TERMS,
            list(terms)
        ),
    };
    let place = place(scope);
    format!("{REPORT}{place}{about}: write what the notes say to {REPORT_PATH}.{beyond}")
}

fn list(terms: &[String]) -> String {
    let quoted: Vec<String> = terms.iter().map(|term| quote(term)).collect();
    quoted.join(", ")
}

fn place(scope: &Scope) -> String {
    match scope.only.as_slice() {
        [] => quote(&scope.path),
        only => format!("{} (only {})", quote(&scope.path), list(only)),
    }
}

/// The folder, terms and further terms in what follows an opening.
fn parts(text: &str) -> Option<(Scope, Vec<String>, Vec<String>)> {
    let mut scope = None;
    let mut lists: [Vec<String>; 3] = Default::default();
    let mut list = 0;
    for (before, phrase) in phrases(text) {
        let Some(_) = scope else {
            scope = before.is_empty().then_some(phrase);
            scope.as_ref()?;
            continue;
        };
        match before {
            ", " => {}
            " (only " => list = 0,
            // The terms come first, then those beyond the limit.
            _ => list = (list + 1).min(2),
        }
        lists[list].push(phrase);
    }
    let [only, terms, left_out] = lists;
    Some((Scope { path: scope?, only }, terms, left_out))
}

/// The JSON strings in `text`, each with what stands before it.
fn phrases(text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let mut strings = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<String>();
        let Some(Ok(phrase)) = strings.next() else {
            break;
        };
        found.push((&rest[..at], phrase));
        rest = &rest[at + strings.byte_offset()..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_is_read_back() {
        let odd = ["a \"b\", \\c", "(only ", ", ", "会话 记忆", "for \"x\""];
        let terms: Vec<String> = odd.iter().map(|term| (*term).to_owned()).collect();
        for only in [vec![], vec!["*.md".to_owned(), "a b.md".to_owned()]] {
            let scope = Scope {
                path: "my \"docs\"".into(),
                only,
            };
            let mut tasks = vec![
                Task::Survey(scope.clone()),
                Task::Outline(scope.clone()),
                Task::Refuse("run commands".into()),
            ];
            for count in 1..=terms.len() {
                let (scope, terms) = (scope.clone(), terms[..count].to_vec());
                tasks.push(Task::Read {
                    scope: scope.clone(),
                    terms: terms.clone(),
                });
                tasks.push(Task::Compare {
                    scope: scope.clone(),
                    terms: terms.clone(),
                });
                tasks.push(Task::Search {
                    scope: scope.clone(),
                    term: terms[count - 1].clone(),
                });
                tasks.push(Task::Report {
                    scope,
                    terms: terms.clone(),
                    left_out: terms,
                });
            }
            tasks.push(Task::Report {
                scope,
                terms: vec![],
                left_out: vec![],
            });
            for task in tasks {
                let text = task.description();
                assert!(!text.contains('\n'), "{text}");
                assert_eq!(Task::parse(&text), task, "{text}");
            }
        }
    }

    #[test]
    fn another_text_is_a_persons() {
        for text in [
            "Do it.",
            "Search the files under docs for Redis",
            "",
            SEARCH,
        ] {
            assert_eq!(Task::parse(text), Task::Free(text.into()));
        }
    }
}

//! `search_files`: the lines that match.
//!
//! A search reads files in pieces and never holds more than one of them, its expression, the beginning
//! of a line and its result: about 2 MiB beside the result, whatever it searches.

use super::expression::{Expression, SHORT};
use super::lines::{Line, Lines};
use super::root::{Place, Roots};
use super::walk::{Found, walk};
use super::{Arguments, Folders, NOT_OUTPUT, Stop, blocking};
use crate::error::ToolError;
use crate::text::{Listing, brief};
use crate::tool::{Call, Effect, Output, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::text::counted;
use cairn_views::file_results::{MatchTotals, MatchedLine};
use serde_json::json;
use std::cell::OnceCell;
use std::io::{self, Read};
use std::sync::Arc;

/// Matches shown unless `max` says otherwise.
const DEFAULT_MAX: usize = 200;
/// Characters of a line that are shown.
const LINE_SHOWN: usize = 240;
/// Bytes of a file that are read at a time.
const PIECE: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct SearchFiles {
    spec: ToolSpec,
    folders: Arc<Folders>,
}

impl SearchFiles {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let spec = folders.spec(
            "search_files",
            &format!(
                "Finds the lines that hold a text (or match a regular expression) in the text files of a folder \
                 and of all folders below it. Each match is one line of the result: path, colon, line number, \
                 colon, tab, the line; then the totals. Leaves out hidden files, binary files, symbolic links and \
                 what .gitignore names. {NOT_OUTPUT}"
            ),
            json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string", "minLength": 1, "maxLength": 1000,
                        "description": "What to look for."
                    },
                    "path": {
                        "type": "string", "minLength": 1, "maxLength": 4096,
                        "description": "Folder or file to search; '.' (the default) is the workspace."
                    },
                    "regex": {
                        "type": "boolean",
                        "description": "The pattern is a regular expression (no look-around or \
                                        back-references); false by default."
                    },
                    "ignore_case": {
                        "type": "boolean",
                        "description": "Capital and small letters are the same; true by default."
                    },
                    "max": {
                        "type": "integer", "minimum": 1, "maximum": 10000,
                        "description": "Most matches to show; by default 200, in at most 32 KiB. Totals count \
                                        all. With 'max', the result may be longer than you get at once: \
                                        read_result reads on in it."
                    }
                },
                "required": ["pattern"],
                "additionalProperties": false
            }),
            Effect::Pure,
        );
        Self { spec, folders }
    }
}

#[async_trait]
impl Tool for SearchFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let arguments = Arguments(&call.arguments);
        let max = arguments.count("max");
        let request = Request {
            place: Roots::place(arguments.text("path").unwrap_or("."))?,
            pattern: arguments.text("pattern").unwrap_or_default().to_owned(),
            is_expression: arguments.flag("regex").unwrap_or(false),
            ignore_case: arguments.flag("ignore_case").unwrap_or(true),
            max: max.unwrap_or(DEFAULT_MAX),
            most_bytes: self.folders.listing_bytes(max),
        };
        let folders = self.folders.clone();
        blocking(call, move |stop| Search::run(&folders, &request, stop)).await
    }
}

struct Request {
    place: Place,
    pattern: String,
    is_expression: bool,
    ignore_case: bool,
    max: usize,
    most_bytes: usize,
}

impl Request {
    /// Compiles the pattern, which may take milliseconds.
    fn expression(&self) -> Result<Expression, ToolError> {
        let pattern = match self.is_expression {
            true => self.pattern.clone(),
            false => regex_syntax::escape(&self.pattern),
        };
        Expression::new(&pattern, self.ignore_case).map_err(|problem| {
            ToolError::InvalidArguments(format!(
                "pattern is no usable regular expression: {problem}; escape special characters, or \
                 leave out regex to look for plain text"
            ))
        })
    }
}

struct Search<'a> {
    stop: &'a Stop,
    lines: Lines<'a>,
    found: Matches,
    file_limit: u64,
    budget: u64,
    /// Its lines are counted in `found`.
    totals: MatchTotals,
    unsearched: u64,
    piece: Vec<u8>,
}

/// The matching lines. What a file added can be taken back, if that turns out not to be text.
struct Matches {
    listing: Listing,
    lines: u64,
    /// Lines of which it is not known whether they match.
    unknown: u64,
}

impl Matches {
    fn take(&mut self, path: &str, line: Line<'_>) {
        let Line::Matching(number, text) = line else {
            self.unknown += 1;
            return;
        };
        self.lines += 1;
        self.listing.offer(|| MatchedLine {
            path: path.to_owned(),
            line: number,
            text: excerpt(text),
        });
    }
}

impl<'a> Search<'a> {
    fn run(folders: &Folders, request: &Request, stop: &'a Stop) -> Result<Output, ToolError> {
        let limits = &folders.limits;
        let mut search = Self {
            stop,
            lines: Lines::new(request.expression()?, stop),
            found: Matches {
                listing: Listing::new(request.max, request.most_bytes),
                lines: 0,
                unknown: 0,
            },
            file_limit: limits.file_bytes,
            budget: limits.total_bytes,
            totals: MatchTotals::default(),
            unsearched: 0,
            piece: vec![0; PIECE],
        };
        let notes = walk(&folders.roots, &request.place, limits, stop, &mut |found| {
            search.file(found)
        })?;
        let mut lines = notes.lines(limits);
        if search.unsearched > 0 {
            lines.push(format!(
                "truncated: {} left unsearched after {} bytes; give a narrower path",
                counted(search.unsearched, "file"),
                limits.total_bytes
            ));
        }
        if search.found.unknown > 0 {
            lines.push(format!(
                "skipped: {} longer than {SHORT} bytes, in which word boundaries cannot be found beside \
                 characters beyond ASCII; search without \\b",
                counted(search.found.unknown, "line")
            ));
        }
        search.totals.lines = search.found.lines;
        Ok(search.found.listing.finish(&search.totals, &lines))
    }

    fn file(&mut self, found: &Found<'_>) -> Result<(), ToolError> {
        let (file, metadata) = match found.open() {
            Ok(opened) => opened,
            // It has gone, or is not to be shown after all.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => {
                self.totals.unreadable += 1;
                return Ok(());
            }
        };
        if !metadata.is_file() {
            return Ok(());
        }
        if metadata.len() > self.file_limit {
            self.totals.large += 1;
            return Ok(());
        }
        if metadata.len() > self.budget {
            self.unsearched += 1;
            return Ok(());
        }
        let before = (
            self.found.listing.mark(),
            self.found.lines,
            self.found.unknown,
        );
        let content = self.content(file.take(self.file_limit.min(self.budget)), found)?;
        match content {
            Content::Text => {
                self.totals.searched += 1;
                self.totals.files += u64::from(self.found.lines > before.1);
                return Ok(());
            }
            Content::Binary => self.totals.binary += 1,
            Content::Unreadable => self.totals.unreadable += 1,
        }
        self.found.listing.rewind(before.0);
        (self.found.lines, self.found.unknown) = (before.1, before.2);
        Ok(())
    }

    fn content(&mut self, mut file: impl Read, found: &Found<'_>) -> Result<Content, ToolError> {
        let shown = OnceCell::new();
        let matches = &mut self.found;
        let mut take = |line: Line<'_>| matches.take(shown.get_or_init(|| found.shown()), line);
        self.lines.begin();
        loop {
            self.stop.check()?;
            let Ok(read) = file.read(&mut self.piece) else {
                return Ok(Content::Unreadable);
            };
            if read == 0 {
                self.lines.end(&mut take)?;
                return Ok(Content::Text);
            }
            self.budget = self.budget.saturating_sub(read as u64);
            let piece = &self.piece[..read];
            if piece.contains(&0) {
                return Ok(Content::Binary);
            }
            self.lines.piece(piece, &mut take)?;
        }
    }
}

enum Content {
    Text,
    Binary,
    Unreadable,
}

/// The line as it is shown, from its beginning.
fn excerpt(head: &[u8]) -> String {
    let most = (LINE_SHOWN + 1) * 4;
    brief(
        &String::from_utf8_lossy(&head[..head.len().min(most)]),
        LINE_SHOWN,
    )
}

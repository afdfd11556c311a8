//! `search_files`: the lines that match.

use super::root::{Place, Roots, open_file};
use super::walk::{Found, walk};
use super::{Arguments, Folders, Stop, blocking};
use crate::error::ToolError;
use crate::text::{Listing, brief};
use crate::tool::{Call, Effect, Output, Tool, ToolSpec};
use async_trait::async_trait;
use regex::bytes::{Regex, RegexBuilder};
use serde_json::json;
use std::io::Read;
use std::sync::Arc;

/// Matches shown unless `max` says otherwise.
const DEFAULT_MAX: usize = 200;
/// Characters of a line that are shown.
const LINE_SHOWN: usize = 240;
/// Most bytes of a compiled expression; it also bounds the time that a byte of text can take.
const REGEX_BYTES: usize = 1 << 20;
/// Lines between two looks at whether the search is still wanted.
const LINES_PER_CHECK: usize = 4096;

#[derive(Debug)]
pub(super) struct SearchFiles {
    spec: ToolSpec,
    folders: Arc<Folders>,
}

impl SearchFiles {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let spec = folders.spec(
            "search_files",
            "Finds the lines that hold a text (or match a regular expression) in the text files of \
             a folder and of all folders below it. Each match is one line of the result: path, \
             colon, line number, colon, tab, the line; then the totals. Leaves out hidden files, \
             binary files and what .gitignore names.",
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
                        "description": "Most matches to show; 200 by default. Totals count all."
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
        let wish = Wish {
            place: Roots::place(arguments.text("path").unwrap_or("."))?,
            matcher: matcher(&arguments)?,
            max: arguments.count("max").unwrap_or(DEFAULT_MAX),
            most_bytes: self.spec.output_limit,
        };
        let folders = self.folders.clone();
        blocking(call, move |stop| Search::run(&folders, &wish, stop)).await
    }
}

struct Wish {
    place: Place,
    matcher: Regex,
    max: usize,
    most_bytes: usize,
}

/// The expression, which runs in linear time whatever it is.
fn matcher(arguments: &Arguments<'_>) -> Result<Regex, ToolError> {
    let pattern = arguments.text("pattern").unwrap_or_default();
    let pattern = match arguments.flag("regex") {
        Some(true) => pattern.to_owned(),
        _ => regex::escape(pattern),
    };
    RegexBuilder::new(&pattern)
        .case_insensitive(arguments.flag("ignore_case").unwrap_or(true))
        .size_limit(REGEX_BYTES)
        .build()
        .map_err(|error| {
            ToolError::InvalidArguments(format!(
                "pattern is no usable regular expression: {error}; escape special characters, or \
                 leave out regex to look for plain text"
            ))
        })
}

struct Search<'a> {
    wish: &'a Wish,
    stop: &'a Stop,
    listing: Listing,
    file_limit: u64,
    budget: u64,
    searched: u64,
    files: u64,
    lines: u64,
    binary: u64,
    large: u64,
    unreadable: u64,
    unsearched: u64,
    buffer: Vec<u8>,
}

impl<'a> Search<'a> {
    fn run(folders: &Folders, wish: &'a Wish, stop: &'a Stop) -> Result<Output, ToolError> {
        let limits = &folders.limits;
        let mut search = Self {
            wish,
            stop,
            listing: Listing::new(wish.max, wish.most_bytes),
            file_limit: limits.file_bytes,
            budget: limits.total_bytes,
            searched: 0,
            files: 0,
            lines: 0,
            binary: 0,
            large: 0,
            unreadable: 0,
            unsearched: 0,
            buffer: Vec::new(),
        };
        let notes = walk(&folders.roots, &wish.place, limits, stop, &mut |found| {
            search.file(found)
        })?;
        let mut lines = notes.lines(limits);
        if search.unsearched > 0 {
            lines.push(format!(
                "truncated: {} files were left unsearched after {} bytes; give a narrower path",
                search.unsearched, limits.total_bytes
            ));
        }
        let total = search.total();
        Ok(search.listing.finish(&total, &lines))
    }

    fn file(&mut self, found: &Found<'_>) -> Result<(), ToolError> {
        match self.load(found)? {
            Load::Text => {}
            Load::Other => return Ok(()),
        }
        self.searched += 1;
        let buffer = std::mem::take(&mut self.buffer);
        let mut matching = 0;
        let shown = std::cell::OnceCell::new();
        let text = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if index % LINES_PER_CHECK == 0 {
                self.stop.check()?;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !buffer.is_empty() && self.wish.matcher.is_match(line) {
                matching += 1;
                let path = shown.get_or_init(|| found.shown());
                self.listing
                    .offer(|| format!("{path}:{}:\t{}", index + 1, excerpt(line)));
            }
        }
        self.buffer = buffer;
        self.lines += matching;
        self.files += u64::from(matching > 0);
        Ok(())
    }

    /// Reads a file into the buffer, if it is one to be searched.
    fn load(&mut self, found: &Found<'_>) -> Result<Load, ToolError> {
        let Ok((file, metadata)) = open_file(found.dir, found.name) else {
            self.unreadable += 1;
            return Ok(Load::Other);
        };
        if !metadata.is_file() {
            return Ok(Load::Other);
        }
        if metadata.len() > self.file_limit {
            self.large += 1;
            return Ok(Load::Other);
        }
        if metadata.len() > self.budget {
            self.unsearched += 1;
            return Ok(Load::Other);
        }
        self.buffer.clear();
        let mut reader = file.take(self.file_limit.min(self.budget));
        let mut part = [0; 16 * 1024];
        loop {
            self.stop.check()?;
            let Ok(read) = reader.read(&mut part) else {
                self.unreadable += 1;
                return Ok(Load::Other);
            };
            if read == 0 {
                return Ok(Load::Text);
            }
            self.budget = self.budget.saturating_sub(read as u64);
            if part[..read].contains(&0) {
                self.binary += 1;
                return Ok(Load::Other);
            }
            self.buffer.extend_from_slice(&part[..read]);
        }
    }

    fn total(&self) -> String {
        let mut total = format!(
            "total: {} matching lines in {} files, {} files searched",
            self.lines, self.files, self.searched
        );
        for (count, what) in [
            (self.binary, "binary files skipped"),
            (self.large, "files skipped as too large"),
            (self.unreadable, "files skipped as unreadable"),
        ] {
            if count > 0 {
                total.push_str(&format!(", {count} {what}"));
            }
        }
        total
    }
}

enum Load {
    Text,
    Other,
}

/// The line as it is shown. Only the bytes that can be shown are decoded, as a line may be as long
/// as a file.
fn excerpt(line: &[u8]) -> String {
    let most = (LINE_SHOWN + 1) * 4;
    brief(
        &String::from_utf8_lossy(&line[..line.len().min(most)]),
        LINE_SHOWN,
    )
}

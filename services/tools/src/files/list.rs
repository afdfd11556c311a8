//! `list_files`: what there is, how large, and how many lines.

use super::expression::Expression;
use super::root::{Place, Roots};
use super::walk::{Found, walk};
use super::{Arguments, Folders, NOT_OUTPUT, Stop, blocking, buffer_for};
use crate::error::ToolError;
use crate::text::Listing;
use crate::tool::{Call, Effect, Output, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_views::file_results::{FileKind, FileTotals, ListedFile};
use globset::GlobBuilder;
use serde_json::json;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Entries shown unless `max` says otherwise.
const DEFAULT_MAX: usize = 1000;
/// Bytes that tell text from binary where a file is too large to be read whole.
const SNIFF: u64 = 8 * 1024;

#[derive(Debug)]
pub(super) struct ListFiles {
    spec: ToolSpec,
    folders: Arc<Folders>,
}

impl ListFiles {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let spec = folders.spec(
            "list_files",
            &format!(
                "Lists the files of a folder and of all folders below it, sorted by path: path, bytes, lines and \
                 kind (text, binary or unreadable), separated by tabs, and then the totals. Leaves out hidden \
                 files, symbolic links and what .gitignore names. Paths are relative to the workspace. \
                 {NOT_OUTPUT}"
            ),
            json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string", "minLength": 1, "maxLength": 4096,
                        "description": "Folder to list; '.' (the default) is the workspace."
                    },
                    "pattern": {
                        "type": "string", "minLength": 1, "maxLength": 256,
                        "description": "Glob such as '*.md' (any folder) or 'docs/**/*.md'."
                    },
                    "max": {
                        "type": "integer", "minimum": 1, "maximum": 50000,
                        "description": "Most files to show; by default 1000, in at most 32 KiB. Totals count \
                                        all. With 'max', the result may be longer than you get at once: \
                                        read_result reads on in it."
                    }
                },
                "additionalProperties": false
            }),
            Effect::Pure,
        );
        Self { spec, folders }
    }
}

#[async_trait]
impl Tool for ListFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let arguments = Arguments(&call.arguments);
        let max = arguments.count("max");
        let mut request = Request {
            place: Roots::place(arguments.text("path").unwrap_or("."))?,
            pattern: arguments.text("pattern").map(Pattern::new).transpose()?,
            max: max.unwrap_or(DEFAULT_MAX),
            most_bytes: self.folders.listing_bytes(max),
        };
        let folders = self.folders.clone();
        blocking(call, move |stop| list(&folders, &mut request, stop)).await
    }
}

struct Request {
    place: Place,
    pattern: Option<Pattern>,
    max: usize,
    most_bytes: usize,
}

/// A glob without a slash looks at names, one with a slash at paths.
struct Pattern {
    expression: Expression,
    names_only: bool,
}

impl Pattern {
    fn new(glob: &str) -> Result<Self, ToolError> {
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        let fault = |problem: String| {
            ToolError::InvalidArguments(format!(
                "pattern is no glob: {problem}; write for example *.md or docs/**/*.md"
            ))
        };
        let parsed = GlobBuilder::new(glob).literal_separator(true).build();
        let parsed = parsed.map_err(|error| fault(error.kind().to_string()))?;
        // A dot in it stands for line ends too.
        let expression = format!("(?s){}", parsed.regex());
        Ok(Self {
            expression: Expression::new(&expression, false).map_err(fault)?,
            names_only: !glob.contains('/'),
        })
    }

    /// A path pattern may start at the workspace or at the folder that is listed.
    fn accepts(&mut self, found: &Found<'_>) -> bool {
        let mut is_match = |path: &OsStr| self.expression.is_match(path.as_bytes());
        if self.names_only {
            return found.path.file_name().is_some_and(is_match);
        }
        is_match(found.below.as_os_str())
            || is_match(found.path.as_os_str())
            || is_match(found.shown_path().as_os_str())
    }
}

fn list(folders: &Folders, request: &mut Request, stop: &Stop) -> Result<Output, ToolError> {
    let limits = &folders.limits;
    let Request { place, pattern, .. } = request;
    let mut listing = Listing::new(request.max, request.most_bytes);
    let mut totals = FileTotals::default();
    let mut budget = limits.total_bytes;
    let notes = walk(&folders.roots, place, limits, stop, &mut |found| {
        let is_asked_for = pattern
            .as_mut()
            .is_none_or(|pattern| pattern.accepts(found));
        if !is_asked_for {
            return Ok(());
        }
        let Some(file) = look(found, limits.file_bytes, &mut budget, stop)? else {
            return Ok(());
        };
        count(&mut totals, &file);
        listing.offer(|| file);
        Ok(())
    })?;
    Ok(listing.finish(&totals, &notes.lines(limits)))
}

/// Looks into a file; none if it has gone, is no file any more, or is not to be shown.
fn look(
    found: &Found<'_>,
    file_limit: u64,
    budget: &mut u64,
    stop: &Stop,
) -> Result<Option<ListedFile>, ToolError> {
    let (mut file, metadata) = match found.open() {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Its size is not known either, but it is there.
        Err(_) => return Ok(Some(unreadable(found))),
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let bytes = metadata.len();
    let whole = bytes <= file_limit.min(*budget);
    let limit = if whole {
        file_limit.min(*budget)
    } else {
        SNIFF
    };
    let mut reader = (&mut file).take(limit);
    let mut buffer = buffer_for(bytes.min(limit));
    let (mut binary, mut lines, mut last) = (false, 0, b'\n');
    loop {
        stop.check()?;
        let read = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(_) => return Ok(Some(unreadable(found))),
        };
        let part = &buffer[..read];
        *budget = budget.saturating_sub(read as u64);
        binary |= part.contains(&0);
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        last = part[read - 1];
    }
    lines += u64::from(last != b'\n');
    Ok(Some(ListedFile {
        path: found.shown(),
        bytes,
        lines: (whole && !binary).then_some(lines),
        kind: match binary {
            true => FileKind::Binary,
            false => FileKind::Text,
        },
    }))
}

fn unreadable(found: &Found<'_>) -> ListedFile {
    ListedFile {
        path: found.shown(),
        bytes: 0,
        lines: None,
        kind: FileKind::Unreadable,
    }
}

fn count(totals: &mut FileTotals, file: &ListedFile) {
    totals.files += 1;
    totals.bytes += file.bytes;
    *match file.kind {
        FileKind::Text => &mut totals.text,
        FileKind::Binary => &mut totals.binary,
        FileKind::Unreadable => &mut totals.unreadable,
    } += 1;
}

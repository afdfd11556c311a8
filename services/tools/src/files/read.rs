//! `read_file`: numbered lines of one file.

use super::root::{Place, Roots};
use super::target::known_place;
use super::{Arguments, Folders, Stop, blocking, buffer_for};
use crate::error::ToolError;
use crate::tool::{Call, Effect, FileState, Output, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::key::ContentDigest;
use cairn_engine::text::counted;
use cairn_views::file_results::Excerpt;
use serde_json::json;
use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;

/// Kept free for the first line and the last.
const FRAME: usize = 512;
/// Follows a line that is longer than a whole result may be.
const LINE_CUT: &str = " [cut: the line is longer than a result may be]";

#[derive(Debug)]
pub(super) struct ReadFile {
    spec: ToolSpec,
    folders: Arc<Folders>,
}

impl ReadFile {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let spec = folders.spec(
            "read_file",
            "Reads a text file, or a range of its lines. The first line of the result names the \
             range and the number of lines; then each line follows as number, tab, text. Paths are \
             relative to the workspace; what was written is under 'cairn-out/'. Hidden files, \
             symbolic links and what .gitignore names cannot be read.",
            json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string", "minLength": 1, "maxLength": 4096,
                        "description": "File to read, as list_files shows it."
                    },
                    "from_line": {
                        "type": "integer", "minimum": 1,
                        "description": "First line, from 1; 1 by default."
                    },
                    "to_line": {
                        "type": "integer", "minimum": 1,
                        "description": "Last line, included; the last of the file by default."
                    }
                },
                "required": ["path"],
                "additionalProperties": false
            }),
            Effect::Pure,
        );
        Self { spec, folders }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let arguments = Arguments(&call.arguments);
        let request = Request {
            place: Roots::place(arguments.text("path").unwrap_or_default())?,
            from: arguments.number("from_line").unwrap_or(1),
            to: arguments.number("to_line").unwrap_or(u64::MAX),
            most_bytes: self.folders.page_bytes(),
        };
        if request.to < request.from {
            return Err(ToolError::InvalidArguments(format!(
                "to_line {} is before from_line {}",
                request.to, request.from
            )));
        }
        let folders = self.folders.clone();
        blocking(call, move |stop| read(&folders, &request, stop)).await
    }
}

struct Request {
    place: Place,
    from: u64,
    to: u64,
    most_bytes: usize,
}

fn read(folders: &Folders, request: &Request, stop: &Stop) -> Result<Output, ToolError> {
    let shown = &request.place.shown;
    let (file, metadata) = folders.roots.open_file(&request.place)?;
    let most = folders.limits.total_bytes;
    if metadata.len() > most {
        return Err(ToolError::ExecutionFailed(format!(
            "'{shown}' has {} bytes; files of up to {most} bytes can be read",
            metadata.len()
        )));
    }
    let mut picker = Picker::new(request);
    // A file that grows while it is read is read only up to the limit.
    let buffer = buffer_for(metadata.len());
    picker.take_all(file.take(most), buffer, &request.place, stop)?;
    let total = picker.lines();
    if request.from > total.max(1) {
        return Err(ToolError::InvalidArguments(format!(
            "from_line {} is beyond the end: '{shown}' has {}",
            request.from,
            counted(total, "line")
        )));
    }
    let output = present(request, &picker, total);
    Ok(Output {
        file: Some(FileState {
            path: known_place(&request.place),
            digest: picker.digest.finish(),
        }),
        ..output
    })
}

/// Keeps the bytes of the lines that are wanted, as far as a result can hold them, and counts the
/// rest: memory is bounded by the result and not by the file.
struct Picker {
    digest: ContentDigest,
    from: u64,
    to: u64,
    most: usize,
    kept: Vec<u8>,
    ends: u64,
    last: u8,
}

impl Picker {
    fn new(request: &Request) -> Self {
        Self {
            digest: ContentDigest::default(),
            from: request.from,
            to: request.to,
            most: request.most_bytes,
            kept: Vec::new(),
            ends: 0,
            last: b'\n',
        }
    }

    fn take_all(
        &mut self,
        mut file: impl Read,
        mut buffer: Vec<u8>,
        place: &Place,
        stop: &Stop,
    ) -> Result<(), ToolError> {
        loop {
            stop.check()?;
            let read = file
                .read(&mut buffer)
                .map_err(|error| super::root::explain(place, &error))?;
            let Some(last) = buffer[..read].last() else {
                return Ok(());
            };
            self.last = *last;
            if buffer[..read].contains(&0) {
                return Err(ToolError::ExecutionFailed(format!(
                    "'{}' is a binary file; only text can be read",
                    place.shown
                )));
            }
            self.digest.update(&buffer[..read]);
            self.take(&buffer[..read]);
        }
    }

    fn take(&mut self, part: &[u8]) {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            let line = self.ends + 1;
            if (self.from..=self.to).contains(&line) && self.kept.len() <= self.most {
                let room = self.most + 1 - self.kept.len();
                self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            self.ends += u64::from(piece.ends_with(b"\n"));
        }
    }

    fn lines(&self) -> u64 {
        self.ends + u64::from(self.last != b'\n')
    }

    /// Not everything that was wanted was kept.
    fn is_short(&self) -> bool {
        self.kept.len() > self.most
    }
}

fn present(request: &Request, picker: &Picker, total: u64) -> Output {
    let shown = &request.place.shown;
    let room = request.most_bytes.saturating_sub(FRAME + shown.len());
    let mut excerpt = Excerpt {
        path: shown.clone(),
        first: if total == 0 { 0 } else { request.from },
        total,
        is_lossy: false,
        lines: Vec::new(),
        is_cut: false,
    };
    let (mut used, mut next) = (0, request.from);
    let pieces = picker.kept.split_inclusive(|byte| *byte == b'\n');
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        // The last piece may have been cut in the middle.
        let whole = !(picker.is_short() && pieces.peek().is_none());
        let text = String::from_utf8_lossy(if whole {
            strip_end(piece)
        } else {
            strip_part(piece)
        });
        // A line break, the number and a tab.
        let frame = next.to_string().len() + 2;
        let fits = whole && used + frame + text.len() <= room;
        if !fits && !excerpt.lines.is_empty() {
            break;
        }
        next += 1;
        excerpt.is_lossy |= matches!(text, Cow::Owned(_));
        if !fits {
            let room = room.saturating_sub(LINE_CUT.len() + frame);
            let part = &text[..text.floor_char_boundary(room)];
            excerpt.lines.push(format!("{part}{LINE_CUT}"));
            break;
        }
        used += frame + text.len();
        excerpt.lines.push(text.into_owned());
    }
    excerpt.is_cut = next <= request.to.min(total);
    Output::text(excerpt.to_string())
}

/// Without its line end, `\r\n` included.
fn strip_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Without the part of a character that a cut in the middle leaves at the end.
fn strip_part(line: &[u8]) -> &[u8] {
    match std::str::from_utf8(line) {
        Err(error) if error.error_len().is_none() => &line[..error.valid_up_to()],
        _ => line,
    }
}

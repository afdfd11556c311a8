//! Reading archives: all that is wrong with a file is noticed, and where.

use super::{Chain, EndLine, EventLine, FORMAT, Header, PartLine, SUM};
use crate::apart::{blob_of, digest_of, listed};
use crate::port::TranscriptEvent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cairn_engine::text::BOM;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read as _};

/// More than the longest line that is written: an event with a blob of 3 MiB in Base64.
const LONGEST: u64 = 8 << 20;

/// Why a file is not a whole archive. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refuses.
    #[error("cannot read line {line}: {source}")]
    Io {
        /// The line that was to be read.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("the file is not an archive of a session: line 1 has no \"cairn_archive\"")]
    Foreign,
    /// A newer version of this program wrote the file.
    #[error(
        "the archive has format {found}, and this program reads formats up to {}",
        FORMAT
    )]
    Newer {
        /// The file's format.
        found: u32,
    },
    /// A line is not what was written.
    #[error("line {line} is damaged: {problem}")]
    Damaged {
        /// The line.
        line: u64,
        /// What is wrong with the line.
        problem: String,
    },
    /// The end of the file is missing.
    #[error("the file is cut off in line {line}, after event {seq}")]
    Cut {
        /// The line that is not whole, or not there.
        line: u64,
        /// The last event that can be read; 0 for none.
        seq: u64,
    },
}

/// What a line of an archive holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The next blob that the next event lists.
    Part(Bytes),
    /// The next event. The blobs that it lists were the items before it, in the order of its list.
    Event(TranscriptEvent),
}

/// Reads an archive line by line. Only a file that was read to its end is known to be whole.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    chain: Chain,
    /// The line that was read last.
    line: u64,
    /// The event that was read last.
    seq: u64,
    /// Digests of the blobs that were read since.
    parts: Vec<String>,
    is_over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// A file that cannot be read, is no archive, is newer, or is damaged in the first line.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let start = input.fill_buf();
        let start = start.map_err(|source| ReadError::Io { line: 1, source })?;
        if start.starts_with(BOM.as_bytes()) {
            input.consume(BOM.len());
        }
        let header = Header::new("", "", None);
        let mut reader = Self {
            input,
            header,
            chain: Chain::default(),
            line: 0,
            seq: 0,
            parts: Vec::new(),
            is_over: false,
        };
        let Some(line) = reader.next_line()? else {
            return Err(ReadError::Foreign);
        };
        // What another format has beside its number is for another program to know.
        let fields: Result<serde_json::Value, _> = serde_json::from_str(&line);
        let fields = fields.map_err(|_| ReadError::Foreign)?;
        let format = fields
            .get("cairn_archive")
            .and_then(|format| format.as_u64());
        let format = format.ok_or(ReadError::Foreign)?;
        if format > u64::from(FORMAT) {
            let found = u32::try_from(format).unwrap_or(u32::MAX);
            return Err(ReadError::Newer { found });
        }
        reader.header = reader.parsed(&line)?;
        Ok(reader)
    }

    /// Whose journal it is.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of the event that was read last.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Names what was read so far: SHA-256 in hexadecimal over all lines.
    pub fn digest(&self) -> String {
        self.chain.hex()
    }

    /// The next blob or event; `None` once the end was read and nothing follows.
    ///
    /// # Errors
    /// A line that cannot be read, is damaged, or is missing; an event without the blobs that it lists.
    pub fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        let Some(line) = self.next_line()? else {
            return Err(self.cut());
        };
        if line.starts_with("{\"end\":") {
            let EndLine { end } = self.parsed(&line)?;
            return self.end(end).map(|()| None);
        }
        if line.starts_with("{\"part\":") {
            let PartLine { part } = self.parsed(&line)?;
            let part = self.decoded(&part)?;
            self.parts.push(digest_of(&part));
            return Ok(Some(Item::Part(part)));
        }
        let event: EventLine = self.parsed(&line)?;
        let event = self.event(event)?;
        Ok(Some(Item::Event(event)))
    }

    fn end(&mut self, end: u64) -> Result<(), ReadError> {
        if end != self.seq || end == 0 {
            let problem = format!(
                "it says that event {end} is the last, after event {}",
                self.seq
            );
            return Err(self.damaged(&problem));
        }
        if !self.parts.is_empty() {
            return Err(self.damaged("no event lists the blobs before it"));
        }
        if self.next_line()?.is_some() {
            return Err(self.damaged("it follows the end of the archive"));
        }
        self.is_over = true;
        Ok(())
    }

    fn event(&mut self, line: EventLine) -> Result<TranscriptEvent, ReadError> {
        let expected = self.seq + 1;
        if line.seq != expected {
            let problem = format!("it has event {} in place of event {expected}", line.seq);
            return Err(self.damaged(&problem));
        }
        let event = self.decoded(&line.event)?;
        let blob = line.blob.map(|blob| self.decoded(&blob)).transpose()?;
        let digest = blob.as_ref().map(|blob| digest_of(blob));
        if event.is_empty() || digest != blob_of(&event) {
            return Err(self.damaged("its event and its blob do not belong together"));
        }
        if std::mem::take(&mut self.parts) != listed(&event) {
            let problem =
                format!("the lines before it are not the blobs that event {expected} lists");
            return Err(self.damaged(&problem));
        }
        self.seq = expected;
        Ok(TranscriptEvent {
            event,
            blob,
            ends: line.ends,
        })
    }

    fn decoded(&self, text: &str) -> Result<Bytes, ReadError> {
        let bytes = STANDARD.decode(text);
        bytes.map(Bytes::from).map_err(|error| self.damaged(&error))
    }

    /// The fields of a line whose sum is right.
    fn parsed<T: DeserializeOwned>(&mut self, line: &str) -> Result<T, ReadError> {
        let parts = line.rsplit_once(SUM);
        let parts = parts.and_then(|(text, sum)| Some((text, sum.strip_suffix("\"}")?)));
        let Some((text, sum)) = parts else {
            return Err(self.damaged("it has no sum"));
        };
        if self.chain.add(text) != sum {
            return Err(self.damaged("its sum is wrong"));
        }
        serde_json::from_str(line).map_err(|error| self.damaged(&error))
    }

    /// The next line without its end; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<String>, ReadError> {
        self.line += 1;
        let mut bytes = Vec::new();
        let mut input = self.input.by_ref().take(LONGEST);
        let line = self.line;
        let read = input.read_until(b'\n', &mut bytes);
        read.map_err(|source| ReadError::Io { line, source })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.pop() != Some(b'\n') {
            return Err(match bytes.len() as u64 + 1 {
                LONGEST => self.damaged("it is too long"),
                _ => self.cut(),
            });
        }
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| self.damaged("it is not text"))
    }

    fn damaged(&self, problem: &(impl std::fmt::Display + ?Sized)) -> ReadError {
        ReadError::Damaged {
            line: self.line,
            problem: problem.to_string(),
        }
    }

    fn cut(&self) -> ReadError {
        ReadError::Cut {
            line: self.line,
            seq: self.seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lines;
    use super::*;
    use cairn_proto::event::{Blob, Event, StoredApart, event::Kind};
    use prost::Message as _;

    const PARTS: [&[u8]; 2] = [b"the first part", b"the second part"];

    fn event(event: Bytes, blob: Option<Bytes>, ends: bool) -> Item {
        Item::Event(TranscriptEvent { event, blob, ends })
    }

    fn part(data: &'static [u8]) -> Item {
        Item::Part(Bytes::from_static(data))
    }

    /// An event that lists the parts.
    fn listing() -> Bytes {
        let blob = |part: &[u8]| Blob {
            digest: digest_of(part),
            size: part.len() as u32,
        };
        let event = Event {
            at_unix_ms: 1,
            blobs: PARTS.map(blob).to_vec(),
            ..Default::default()
        };
        event.encode_to_vec().into()
    }

    /// A session with an event that no version can decode, one that is stored apart, and one with two blobs.
    fn items() -> Vec<Item> {
        let blob = Bytes::from_static(b"a large one");
        let apart = StoredApart {
            digest: digest_of(&blob),
            size: 11,
        };
        let apart = Event {
            at_unix_ms: 1,
            kind: Some(Kind::StoredApart(apart)),
            ..Default::default()
        };
        vec![
            event(Bytes::from_static(b"\xff\x00\xfe unknown"), None, true),
            event(apart.encode_to_vec().into(), Some(blob), false),
            part(PARTS[0]),
            part(PARTS[1]),
            event(listing(), None, true),
        ]
    }

    fn is_event(item: &&Item) -> bool {
        matches!(item, Item::Event(_))
    }

    fn archive(items: &[Item]) -> String {
        let mut lines = Lines::default();
        let mut text = lines.header(&Header::new("default", "s", Some(7000)));
        let mut seq = 0;
        for item in items {
            text.push_str(&match item {
                Item::Part(data) => lines.part(data),
                Item::Event(event) => {
                    seq += 1;
                    lines.event(seq, event)
                }
            });
        }
        text.push_str(&lines.end(seq));
        text
    }

    fn written() -> String {
        archive(&items())
    }

    fn read(text: &[u8]) -> Result<(Header, Vec<Item>), ReadError> {
        let mut reader = Reader::new(text)?;
        let mut items = Vec::new();
        while let Some(item) = reader.next_item()? {
            items.push(item);
        }
        assert!(reader.next_item()?.is_none());
        assert_eq!(reader.seq(), items.iter().filter(is_event).count() as u64);
        Ok((reader.header().clone(), items))
    }

    fn refused(text: &[u8]) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let (header, read) = read(written().as_bytes()).unwrap();
        assert_eq!(header, Header::new("default", "s", Some(7000)));
        assert_eq!(read, items());
    }

    #[test]
    fn a_mark_of_the_byte_order_is_no_part_of_it() {
        let marked = format!("\u{feff}{}", written());
        let (_, read) = read(marked.as_bytes()).unwrap();
        assert_eq!(read, items());
    }

    /// Every sum is right, as in a file that another program wrote.
    #[test]
    fn an_event_comes_with_the_blobs_that_it_lists() {
        let (one, two) = (|| part(PARTS[0]), || part(PARTS[1]));
        let last = || event(listing(), None, true);
        let event_1 = "the lines before it are not the blobs that event 1 lists";
        let no_event = "no event lists the blobs before it";
        for (items, message) in [
            (vec![last()], format!("line 2 is damaged: {event_1}")),
            (vec![one(), last()], format!("line 3 is damaged: {event_1}")),
            (
                vec![two(), one(), last()],
                format!("line 4 is damaged: {event_1}"),
            ),
            (
                vec![one(), two(), one(), last()],
                format!("line 5 is damaged: {event_1}"),
            ),
            (
                vec![one(), two(), last(), one()],
                format!("line 6 is damaged: {no_event}"),
            ),
        ] {
            assert_eq!(refused(archive(&items).as_bytes()), message);
        }
    }

    #[test]
    fn a_cut_is_noticed_wherever_it_is() {
        let text = written();
        for length in 0..text.len() {
            let refused = read(&text.as_bytes()[..length]).unwrap_err();
            let (line, seq) = match &refused {
                ReadError::Foreign if length == 0 => continue,
                ReadError::Cut { line, seq } => (*line, *seq),
                other => panic!("{length}: {other}"),
            };
            let whole = text.as_bytes()[..length]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count();
            assert_eq!(line, whole as u64 + 1);
            let items = items();
            let before = items.iter().take(whole.saturating_sub(1));
            assert_eq!(seq, before.filter(is_event).count() as u64);
        }
        let length = text.rfind("{\"end\"").unwrap();
        let message = refused(&text.as_bytes()[..length]);
        assert_eq!(message, "the file is cut off in line 7, after event 3");
    }

    #[test]
    fn each_byte_counts_and_the_line_is_named() {
        let text = written();
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let line = 1 + bytes[..place].iter().filter(|&&byte| byte == b'\n').count();
            let message = refused(&bytes);
            // A line that has lost its end continues in the next one.
            let is_named = message.contains(&format!("line {line}")) || line == 1;
            assert!(is_named, "{place}: {message}");
        }
    }

    #[test]
    fn lines_have_their_order() {
        let text = written();
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        for (changed, message) in [
            (
                [0, 1, 3, 2, 4, 5, 6].as_slice(),
                "line 3 is damaged: its sum is wrong",
            ),
            (&[0, 1, 2, 4, 5, 6], "line 4 is damaged: its sum is wrong"),
            (
                &[0, 1, 1, 2, 3, 4, 5, 6],
                "line 3 is damaged: its sum is wrong",
            ),
            (
                &[0, 1, 2, 3, 4, 5, 6, 6],
                "line 8 is damaged: it follows the end of the archive",
            ),
        ] {
            let changed: String = changed.iter().map(|&line| lines[line]).collect();
            assert_eq!(refused(changed.as_bytes()), message);
        }
    }

    #[test]
    fn other_files_are_refused_by_what_they_are() {
        let foreign = "the file is not an archive of a session: line 1 has no \"cairn_archive\"";
        for text in [
            "",
            "{}\n",
            "no JSON\n",
            "{\"seq\":1,\"kind\":\"session_created\"}\n",
        ] {
            assert_eq!(refused(text.as_bytes()), foreign);
        }
        let newer = "{\"cairn_archive\":2,\"other\":true}\n";
        let message = "the archive has format 2, and this program reads formats up to 1";
        assert_eq!(refused(newer.as_bytes()), message);
    }
}

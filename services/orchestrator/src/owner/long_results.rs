//! Results that are longer than a model gets at once. Their texts go into blobs as they come, part by part, and
//! memory holds one part of each stream.

use crate::key::SessionKey;
use crate::store::Store;
use crate::store::may_pass;
use bytes::Bytes;
use cairn_engine::decide::Answer;
use cairn_engine::event::{Blob, ResultHandle};
use cairn_engine::limits::{MAX_RESULT, MAX_RESULT_PART};
use cairn_engine::lines::Lines;
use cairn_proto::executor::{CallResult, ResultPart, RunStepResponse};
use cairn_rpc::RpcError;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Status;

/// One try to store a part may take so long.
const TRY: Duration = Duration::from_secs(10);
/// First and longest pause before the store is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The results of a report of which the executor does not know what the model gets, by their positions: with
/// the whole, if that is more than the report has.
pub(super) type Wholes = BTreeMap<usize, Option<Box<ResultHandle>>>;

/// What became of a message of an executor: a report, or nothing for a part.
pub(super) type Stored = Result<Option<(RunStepResponse, Wholes)>, Status>;

/// The long results of one stream.
pub(super) struct LongResults {
    store: Store,
    key: SessionKey,
    /// Most bytes of a result that the model gets at once, as of the last message.
    most: usize,
    /// Those whose parts come, by tool turn and index of their calls.
    open: BTreeMap<(u32, u32), Gathered>,
}

/// What has come of one result.
#[derive(Default)]
struct Gathered {
    /// The text, up to as many bytes as a model gets at once.
    head: String,
    bytes: u64,
    lines: Lines,
    blobs: Vec<Blob>,
    /// Bytes at the end that are not in the blobs.
    lost_bytes: u64,
}

/// A text that the owner has found for a call: whole, or its beginning with the rest in blobs if it has more than
/// `most` bytes.
pub(super) async fn of_text(store: &Store, key: &SessionKey, text: String, most: usize) -> Answer {
    if text.len() <= most {
        return Answer::found(text);
    }
    let mut results = LongResults::new(store.clone(), key.clone());
    results.most = most;
    let mut gathered = Gathered::default();
    results.add_all(&mut gathered, &text).await;
    let beginning = std::mem::take(&mut gathered.head);
    Answer::long(beginning, gathered.whole(false))
}

/// Whether the message has to go through [`LongResults::take`].
pub(super) fn has_long(message: &RunStepResponse, most: usize) -> bool {
    let is_long = |result: &CallResult| result.part_bytes > 0 || result.output.len() > most;
    message.part.is_some() || message.results.iter().any(is_long)
}

impl LongResults {
    pub(super) fn new(store: Store, key: SessionKey) -> Self {
        Self {
            store,
            key,
            most: 0,
            open: BTreeMap::new(),
        }
    }

    /// Stores what a message has of long results, which have more than `most` bytes. What the store has no room for
    /// is lost, and never refused.
    ///
    /// # Errors
    /// The message does not follow the ones before it.
    pub(super) async fn take(&mut self, mut message: RunStepResponse, most: usize) -> Stored {
        self.most = most;
        if let Some(part) = message.part.take() {
            self.take_part(*part).await?;
            return Ok(None);
        }
        let mut wholes = Wholes::new();
        for (position, result) in message.results.iter_mut().enumerate() {
            let came_in_parts = result.part_bytes > 0;
            let whole = self.end(result).await?;
            if came_in_parts || whole.is_some() {
                wholes.insert(position, whole.map(Box::new));
            }
        }
        Ok(Some((message, wholes)))
    }

    async fn take_part(&mut self, part: ResultPart) -> Result<(), Status> {
        let call = part.call.unwrap_or_default();
        let name = (call.tool_turn, call.index);
        let known = self.open.remove(&name).filter(|_| part.offset > 0);
        let mut gathered = known.unwrap_or_default();
        if gathered.bytes != part.offset || part.text.len() > MAX_RESULT_PART {
            let problem = format!(
                "has {} bytes and follows {}, not {}",
                part.text.len(),
                gathered.bytes,
                part.offset
            );
            return Err(RpcError::invalid("part", problem).into());
        }
        self.add(&mut gathered, part.text).await;
        self.open.insert(name, gathered);
        Ok(())
    }

    /// Puts the beginning into the result, if that is all that a model gets, and returns the whole.
    async fn end(&mut self, result: &mut CallResult) -> Result<Option<ResultHandle>, Status> {
        let call = result.call.unwrap_or_default();
        // Without parts, those that came belong to a call that was lost and made again.
        let known = self.open.remove(&(call.tool_turn, call.index));
        let mut gathered = known.filter(|_| result.part_bytes > 0).unwrap_or_default();
        if gathered.bytes != result.part_bytes {
            let problem = format!("is {}; {} came", result.part_bytes, gathered.bytes);
            return Err(RpcError::invalid("part_bytes", problem).into());
        }
        if result.part_bytes == 0 {
            if result.output.len() <= self.most {
                return Ok(None);
            }
            self.add_all(&mut gathered, &result.output).await;
        }
        result.part_bytes = 0;
        result.output = std::mem::take(&mut gathered.head);
        let is_long = gathered.bytes > self.most as u64;
        Ok(is_long.then(|| gathered.whole(result.is_cut)))
    }

    /// Adds a text in parts.
    async fn add_all(&self, gathered: &mut Gathered, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_RESULT_PART));
            self.add(gathered, part.to_owned()).await;
            rest = after;
        }
    }

    /// Adds the next part of a text. Nothing is stored as long as the text is not long.
    async fn add(&self, gathered: &mut Gathered, text: String) {
        gathered.lines.take(&text, |_, _| {});
        let has_all = gathered.head.len() as u64 == gathered.bytes;
        let bytes = gathered.bytes + text.len() as u64;
        if has_all {
            let before = (bytes > self.most as u64).then(|| gathered.head.clone());
            let room = self.most.saturating_sub(gathered.head.len());
            let head = &text[..text.floor_char_boundary(room)];
            gathered.head.push_str(head);
            match before {
                None => {
                    gathered.bytes = bytes;
                    return;
                }
                Some(before) => self.put(gathered, before).await,
            }
        }
        gathered.bytes = bytes;
        self.put(gathered, text).await;
    }

    /// Stores a part. After one that is lost all are: what is kept has no gaps.
    async fn put(&self, gathered: &mut Gathered, text: String) {
        let size = text.len();
        let kept: u64 = gathered.blobs.iter().map(|blob| u64::from(blob.size)).sum();
        let has_room = gathered.lost_bytes == 0 && kept + size as u64 <= MAX_RESULT as u64;
        let digest = match has_room && size > 0 {
            true => self.stored(text.into()).await,
            false => None,
        };
        match digest {
            Some(digest) => gathered.blobs.push(Blob {
                digest,
                size: u32::try_from(size).unwrap_or(u32::MAX),
            }),
            None => gathered.lost_bytes += size as u64,
        }
    }

    /// Stores a blob, again and again while the store may take it: the stream ends with the lease. None if the
    /// store has no room for it.
    async fn stored(&self, data: Bytes) -> Option<String> {
        let mut pause = FIRST_PAUSE;
        loop {
            match timeout(TRY, self.store.put_blob(&self.key, data.clone(), true)).await {
                Ok(Ok(digest)) => return Some(digest),
                Ok(Err(error)) if !may_pass(&error) => {
                    tracing::warn!(session = %self.key, %error, "the end of a result is not kept");
                    return None;
                }
                Ok(Err(error)) => tracing::warn!(%error, "a result is put into the store again"),
                Err(_) => tracing::warn!("a result is put into the store again: no answer came"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Gathered {
    fn whole(self, is_cut: bool) -> ResultHandle {
        ResultHandle {
            handle: String::new(),
            bytes: self.bytes,
            lines: self.lines.count(),
            lost_bytes: self.lost_bytes,
            is_cut,
            blobs: self.blobs,
        }
    }
}

//! Sessions that begin as copies of others.
//!
//! Source and child may be on different servers, so one script reads and another writes. What is not
//! complete has keys of its own beside those that the child will have, in the same partition;
//! completing it renames them. The events of a transcript come with the call in place of a script's
//! answer.

mod transcript;

use super::answer::Status;
use super::ask::VERY_LATE;
use super::claim::scored;
use super::entry::{rest_field, rest_of};
use super::failure::{Effect, odd};
use super::inner::Inner;
use super::journal::{self, NAME};
use super::keys::{CopyNames, PARTITIONS, Session};
use super::notes::notes;
use super::script::{Call, Odd, Reply, Script};
use super::witness::Mark;
use crate::apart::named;
use crate::fingerprint::Fingerprint;
use crate::port::{
    COPY_BYTES, Completion, Copied, CopyEvents, Level, MemoryEntry, Room, SessionKey, Source,
    StoreResult, TranscriptPage, UNFINISHED_MS, waits_text,
};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Events that one script copies at most, so that nobody waits for it.
const BATCH: usize = 500;

/// Copies of one partition that one look goes through at most.
const MOST: usize = 8;

/// No journal comes so far, and scripts count no further.
const BEYOND: u64 = 1 << 53;

/// A part of the source.
struct Page {
    cut: u64,
    /// As scripts take it: empty for none.
    time_to_live: String,
    /// The level of an owner that can read the source.
    needs: Level,
    /// The names of the events' fields, together.
    fields: Bytes,
    events: Vec<Bytes>,
}

/// The names that the scripts work with.
struct Names {
    child: Session,
    copy: CopyNames,
}

impl Inner {
    /// See [`Store::copy_events`](crate::port::Store::copy_events).
    pub(super) async fn copy_events(&self, copy: CopyEvents) -> StoreResult<Copied> {
        self.limits.check_copy(&copy)?;
        let child = self.names.session(&copy.child);
        let names = Names {
            copy: child.partition.copy(&child.member),
            child,
        };
        let begun = self.copy_begun(&copy, &names, None).await?;
        match (&begun, &copy.completion) {
            (Some(copied), _) if copied.is_complete => Ok(*copied),
            (_, Some(completion)) => self.complete_copy(&copy, &names, begun, completion).await,
            (_, None) => match &copy.source {
                Source::Session(source) => self.copy_on(&copy, source, &names, begun).await,
                Source::Transcript(page) => self.take_page(&copy, page, &names, begun).await,
            },
        }
    }

    /// How far the copy has come; with a cut it is begun if need be.
    async fn copy_begun(
        &self,
        copy: &CopyEvents,
        names: &Names,
        cut: Option<u64>,
    ) -> StoreResult<Option<Copied>> {
        let keys = [
            names.child.hash(),
            names.child.requests(),
            names.copy.hash(),
            names.child.partition.copies(),
        ];
        let cut = cut.map(|cut| cut.to_string()).unwrap_or_default();
        let call = copy_call(&self.scripts.copy_begin, &keys, copy, names).arg(cut);
        let begun = self.run_copy(names, call).await?;
        Ok(begun.map(|(copied, _)| copied))
    }

    async fn copy_on(
        &self,
        copy: &CopyEvents,
        source: &SessionKey,
        names: &Names,
        begun: Option<Copied>,
    ) -> StoreResult<Copied> {
        let through = begun.map_or(0, |begun| begun.copied_through);
        let at = begun.map(|begun| begun.cut_seq).or(copy.at_seq);
        let mut page = self.source_page(source, through, at, BATCH).await?;
        let begun = match begun {
            Some(begun) => begun,
            None => {
                // The events behind the cut decided where it is, and are not read again.
                if let Some(behind) = at.map(|at| at - page.cut).filter(|it| *it > 0) {
                    let behind = usize::try_from(behind).unwrap_or(usize::MAX);
                    self.read(source, page.cut, behind).await?;
                }
                let begun = self.copy_begun(copy, names, Some(page.cut)).await?;
                begun.ok_or_else(|| odd(Effect::Writes, Odd))?
            }
        };
        // Somebody else has begun it meanwhile.
        if (begun.cut_seq, begun.copied_through) != (page.cut, through) {
            return Ok(begun);
        }
        let known = self.copied_blobs(names, &page.events).await?;
        self.copy_blobs(copy, source, names, &mut page, known)
            .await?;
        if page.events.is_empty() && page.cut > through {
            return Ok(begun);
        }
        self.append_copied(copy, names, through, &page.fields, &page.events)
            .await
    }

    /// Appends to a copy that has come so far. `fields` has the names of the events' fields.
    async fn append_copied(
        &self,
        copy: &CopyEvents,
        names: &Names,
        through: u64,
        fields: &[u8],
        events: &[Bytes],
    ) -> StoreResult<Copied> {
        let keys = [
            names.copy.hash(),
            names.copy.journal(),
            names.child.partition.copies(),
        ];
        let bytes: usize = events.iter().map(Bytes::len).sum();
        let call = copy_call(&self.scripts.copy_append, &keys, copy, names)
            .arg(through)
            .arg(fields)
            .arg(bytes)
            .arg(events.len())
            .all(events);
        let copied = self.run_copy(names, call).await?;
        let (copied, _) = copied.ok_or_else(|| odd(Effect::Writes, Odd))?;
        Ok(copied)
    }

    /// Which of the blobs that events name the copy has, by digest.
    async fn copied_blobs(&self, names: &Names, events: &[Bytes]) -> StoreResult<BTreeSet<String>> {
        let digests = events.iter().flat_map(|event| named(event));
        let digests: BTreeSet<_> = digests.collect();
        if digests.is_empty() {
            return Ok(digests);
        }
        let questions = digests.iter().map(|digest| {
            let mut cmd = redis::cmd("HEXISTS");
            cmd.arg(names.copy.blobs()).arg(digest);
            (names.child.partition.number, cmd)
        });
        let questions: Vec<_> = questions.collect();
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let mut copied = BTreeSet::new();
        for digest in digests {
            let is_copied = answers.int().map_err(|error| odd(Effect::Reads, error))?;
            if is_copied == 1 {
                copied.insert(digest);
            }
        }
        Ok(copied)
    }

    /// Copies the blobs that events name before the events; `known` are those that the copy has. What would
    /// be too much for once is left out with its events, and the blobs of an event that were copied are
    /// known to the next call.
    async fn copy_blobs(
        &self,
        copy: &CopyEvents,
        source: &SessionKey,
        names: &Names,
        page: &mut Page,
        mut known: BTreeSet<String>,
    ) -> StoreResult<()> {
        let mut bytes = 0;
        for place in 0..page.events.len() {
            for digest in named(&page.events[place]) {
                if known.contains(&digest) {
                    continue;
                }
                if bytes >= COPY_BYTES {
                    page.events.truncate(place);
                    page.fields.truncate(NAME * place);
                    return Ok(());
                }
                // A blob that is not there was none for the source's readers either.
                if let Some(data) = self.blob(source, &digest).await? {
                    bytes += data.len();
                    self.put_copied(copy, names, &digest, &data).await?;
                }
                known.insert(digest);
            }
        }
        Ok(())
    }

    async fn put_copied(
        &self,
        copy: &CopyEvents,
        names: &Names,
        digest: &str,
        data: &Bytes,
    ) -> StoreResult<()> {
        let keys = [
            names.copy.hash(),
            names.copy.blobs(),
            names.child.partition.copies(),
        ];
        let call = copy_call(&self.scripts.copy_blob, &keys, copy, names)
            .arg(digest)
            .arg(&data[..])
            .arg(self.limits.session_blob_bytes);
        let partition = names.child.partition.number;
        self.run(partition, call, Effect::Writes, |_, _| Ok(()))
            .await
    }

    async fn complete_copy(
        &self,
        copy: &CopyEvents,
        names: &Names,
        begun: Option<Copied>,
        completion: &Completion,
    ) -> StoreResult<Copied> {
        let at = begun.map(|begun| begun.cut_seq).or(copy.at_seq);
        let (time_to_live, needs) = match &copy.source {
            Source::Session(source) => {
                let page = self.source_page(source, 0, at, 0).await?;
                (page.time_to_live, page.needs)
            }
            Source::Transcript(page) => (time_to_live(page), Level::FIRST),
        };
        let keys = completion_keys(names, copy.child.namespace());
        let (most_events, most_bytes) = self.limits.journal_room(Room::Reserve);
        let bytes: usize = completion.events.iter().map(Bytes::len).sum();
        let entries = completion.memory.iter();
        let memory_bytes: usize = entries.map(MemoryEntry::bytes).sum();
        let due = completion.due_unix_ms.map(|due| due.to_string());
        let call = copy_call(&self.scripts.copy_complete, &keys, copy, names)
            .arg(&self.process)
            .arg(completion.header.status.number())
            .arg(completion.header.handled_through)
            .arg(&completion.header.title)
            .arg(due.unwrap_or_default())
            .arg(&time_to_live)
            .arg(bytes)
            .arg(most_events)
            .arg(most_bytes)
            .arg(memory_bytes)
            .arg(completion.events.len())
            .arg(completion.memory.len())
            .arg(journal::sums(&completion.events))
            .arg(notes(&completion.header))
            .arg(needs.max(completion.header.needs).number())
            .arg(waits_text(&completion.header.waits_for))
            .all(&completion.events);
        let call = completion.memory.iter().fold(call, with_entry);
        let copied = self.run_copy(names, call).await?;
        let (copied, made_unix_ms) = copied.ok_or_else(|| odd(Effect::Writes, Odd))?;
        if copied.is_complete {
            return Ok(copied);
        }
        let seq = copied.cut_seq + completion.events.len() as u64;
        let last = completion.events.last();
        let mark = Mark {
            seq,
            event: last.map(|event| Fingerprint::of(seq, event)),
            // There may have been another session of this name.
            made_unix_ms: Some(made_unix_ms),
            ..Mark::default()
        };
        let (partition, member) = (names.child.partition.number, &names.child.member);
        self.servers.witness.saw_new(partition, member, mark);
        self.announce(&copy.child, copied.cut_seq + 1, &completion.events);
        if completion.due_unix_ms.is_some() {
            self.queue.mark(&self.hub, partition);
        }
        Ok(Copied {
            is_complete: true,
            ..copied
        })
    }

    /// Runs a script that answers how far the copy has come, and when, by the server; `None` if nothing
    /// is begun.
    async fn run_copy(&self, names: &Names, call: Call<'_>) -> StoreResult<Option<(Copied, i64)>> {
        let partition = names.child.partition.number;
        self.run(partition, call, Effect::Writes, |status, reply| {
            let (now, cut, through) = (reply.int()?, reply.int()?, reply.number()?);
            let copied = |cut_seq| Copied {
                cut_seq,
                copied_through: through,
                is_complete: status == Status::Duplicate,
                now_unix_ms: self.servers.time.take(now),
            };
            Ok(u64::try_from(cut).ok().map(|cut| (copied(cut), now)))
        })
        .await
    }

    async fn source_page(
        &self,
        source: &SessionKey,
        after_seq: u64,
        at: Option<u64>,
        most: usize,
    ) -> StoreResult<Page> {
        let names = self.names.session(source);
        let keys = [names.hash(), names.journal()];
        let at = at.map(|at| at.min(BEYOND).to_string()).unwrap_or_default();
        let call = self.scripts.copy_read.call(&keys);
        let call = call.arg(after_seq).arg(at).arg(most).arg(COPY_BYTES);
        let read = self.run(names.partition.number, call, Effect::Reads, |_, reply| {
            let (cut, time_to_live) = (reply.number()?, reply.text()?);
            let (needs, fields) = (Level::of_stored(reply.int()?), reply.bytes()?);
            let mut events = Vec::with_capacity(reply.len());
            while reply.len() > 0 {
                events.push(reply.bytes()?);
            }
            Ok(Page {
                cut,
                time_to_live,
                needs,
                fields,
                events,
            })
        });
        let page = read.await?;
        journal::check(after_seq, &page.fields, &page.events)?;
        Ok(page)
    }

    /// See [`Store::drop_unfinished`](crate::port::Store::drop_unfinished).
    pub(super) async fn drop_unfinished(&self, max: usize) -> StoreResult<usize> {
        let before = self.now().await?.saturating_sub(UNFINISHED_MS);
        let questions = (0..PARTITIONS).map(|number| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(self.names.partition(number).copies())
                .arg("-inf")
                .arg(before)
                .arg(&["BYSCORE", "LIMIT", "0"])
                .arg(MOST)
                .arg("WITHSCORES");
            (number, cmd)
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let mut dropped = 0;
        for (number, answer) in (0..PARTITIONS).zip(answers) {
            let members = answer.map_or(Ok(Vec::new()), scored);
            let members = members.map_err(|error| odd(Effect::Reads, error))?;
            for (member, _) in members {
                if dropped == max {
                    return Ok(dropped);
                }
                dropped += usize::from(self.drop_copy(number, &member, before).await?);
            }
        }
        Ok(dropped)
    }

    async fn drop_copy(&self, number: u16, member: &str, before: i64) -> StoreResult<bool> {
        let partition = self.names.partition(number);
        let copy = partition.copy(member);
        let keys = [
            copy.hash(),
            copy.journal(),
            copy.blobs(),
            partition.copies(),
        ];
        let call = self.scripts.copy_drop.call(&keys).arg(member).arg(before);
        self.run(number, call, Effect::Writes, |_, reply| {
            Ok(reply.int()? == 1)
        })
        .await
    }
}

/// A call of a script with what the arguments of all of them begin with.
fn copy_call<'a>(
    script: &'a Script,
    keys: &[String],
    copy: &CopyEvents,
    names: &Names,
) -> Call<'a> {
    script
        .call(keys)
        .arg(&names.child.member)
        .arg(&copy.request.id)
        .arg(&copy.request.digest[..])
        .arg(copy.source.id())
}

/// The call with an entry of session memory as its next arguments.
fn with_entry<'a>(call: Call<'a>, entry: &MemoryEntry) -> Call<'a> {
    call.arg(&entry.key)
        .arg(&entry.value)
        .arg(rest_field(&entry.key))
        .arg(rest_of(entry))
}

/// As scripts take it.
fn time_to_live(page: &TranscriptPage) -> String {
    let ms = page.transcript.time_to_live_ms;
    ms.map(|ms| ms.to_string()).unwrap_or_default()
}

fn completion_keys(names: &Names, namespace: &str) -> [String; 17] {
    let (child, copy, partition) = (&names.child, &names.copy, &names.child.partition);
    [
        child.hash(),
        child.requests(),
        copy.hash(),
        partition.copies(),
        copy.journal(),
        copy.blobs(),
        child.journal(),
        child.blobs(),
        child.memory(),
        partition.due(),
        partition.living(namespace),
        partition.work(),
        partition.resting(),
        partition.ending(),
        partition.changed(namespace),
        partition.asking(namespace),
        partition.waiting(),
    ]
}

//! What clients, watchers and reads say, beside what the model says.

use super::client::{
    Answer, Asked, Client, Contexts, LONGEST_ANSWER, PAUSE, SESSION, SHARED, ask, is_gone, jsonl,
};
use super::model::{Change, Line, Notice, Zones, line};
use cairn_proto::event::Role;
use cairn_proto::orchestrator as pb;
use std::collections::BTreeMap;
use tokio::time::{sleep, timeout};

/// Notices by the seq of their event, with the version of the context after it.
type Noticed = Vec<(u64, u64, Vec<Notice>)>;

/// A context as the model has it after all changes.
#[derive(Default)]
struct Known {
    zones: Zones,
    version: u64,
    /// How many incremental messages each version has.
    lengths: BTreeMap<u64, usize>,
    noticed: Noticed,
}

/// The model, and what disagrees with it.
pub(super) struct Verdict {
    contexts: BTreeMap<&'static str, Known>,
    pub(super) last_seq: u64,
    pub(super) findings: Vec<String>,
    done: usize,
    refused: BTreeMap<String, usize>,
}

impl Verdict {
    /// Carries the answered changes out once more, in the order of their seqs.
    pub(super) fn new(clients: &[Client], immutable: &[Line]) -> Self {
        let mut verdict = Self {
            contexts: SHARED.map(|name| (name, known(name, immutable))).into(),
            last_seq: 0,
            findings: Vec::new(),
            done: 0,
            refused: BTreeMap::new(),
        };
        let mut done = BTreeMap::new();
        let asked = || clients.iter().flat_map(|client| &client.asked);
        for asked in asked() {
            if let Answer::Done { seq, .. } = &asked.answer
                && let Some(other) = done.insert(*seq, asked)
            {
                verdict.find(format!("{asked:?} and {other:?} have one event"));
            }
        }
        for (seq, asked) in &done {
            verdict.carry_out(*seq, asked);
        }
        for asked in asked() {
            if let Answer::Refused(reason) = &asked.answer {
                verdict.check_refusal(asked, reason);
                *verdict.refused.entry(reason.clone()).or_default() += 1;
            }
        }
        verdict.done = done.len();
        verdict.last_seq = done.keys().last().copied().unwrap_or_default();
        verdict
    }

    fn find(&mut self, finding: String) {
        self.findings.push(finding);
    }

    fn carry_out(&mut self, seq: u64, asked: &Asked) {
        let Answer::Done {
            version, popped, ..
        } = &asked.answer
        else {
            return;
        };
        let Some(context) = self.contexts.get_mut(asked.context.as_str()) else {
            return;
        };
        context.version += 1;
        let is_expected = asked
            .expected_version
            .is_none_or(|expected| expected + 1 == *version);
        let is_next = context.version == *version;
        let last = context.zones.incremental.last().cloned();
        let notices = context.zones.change(&asked.change);
        let length = context.zones.incremental.len();
        context.lengths.insert(*version, length);
        let is_popped = asked.change != Change::Pop || *popped == last;
        let fits = notices.is_some();
        let notices = notices.filter(|notices| !notices.is_empty());
        context
            .noticed
            .extend(notices.map(|notices| (seq, *version, notices)));
        if !(is_expected && is_next && is_popped && fits) {
            self.find(format!(
                "{asked:?}: version is next: {is_next}, is the expected one: {is_expected}; \
                 popped is {last:?}: {is_popped}; the index fits: {fits}"
            ));
        }
    }

    /// A refusal with an expected version was decided in a known state.
    fn check_refusal(&mut self, asked: &Asked, reason: &str) {
        let context = &self.contexts[asked.context.as_str()];
        let is_right = match (reason, asked.expected_version) {
            ("VERSION_MISMATCH", Some(expected)) => context.version > expected,
            ("BAD_INDEX", Some(expected)) => {
                let length = context.lengths.get(&expected).copied();
                let lines = length.map(|length| vec![(0, String::new()); length]);
                let mut then = Zones {
                    incremental: lines.unwrap_or_default(),
                    ..Zones::default()
                };
                length.is_some() && then.change(&asked.change).is_none()
            }
            ("BAD_INDEX", None) => true,
            _ => false,
        };
        if !is_right {
            self.find(format!("wrongly refused: {asked:?}"));
        }
    }

    pub(super) fn check_watcher(&mut self, name: &str, seen: &Noticed) {
        let wanted = &self.contexts[name].noticed;
        let differs = seen
            .iter()
            .zip(wanted)
            .position(|(seen, wanted)| seen != wanted);
        let at = differs.unwrap_or_else(|| seen.len().min(wanted.len()));
        if differs.is_some() || seen.len() != wanted.len() {
            let (seen, wanted) = (seen.get(at), wanted.get(at));
            self.find(format!("a watcher of {name} saw {seen:?}, not {wanted:?}"));
        }
    }

    /// All reads of all contexts.
    pub(super) async fn check_reads(&mut self, contexts: &Contexts) {
        for name in SHARED {
            let read = Read::of(contexts, name).await;
            let context = &self.contexts[name];
            let all = context.zones.all();
            let window = context.zones.incremental.len().saturating_sub(3);
            let window = match name {
                "main" => &context.zones.incremental[..],
                _ => &context.zones.incremental[window..],
            };
            let of_role = |role: Role| -> Vec<Line> {
                let lines = all.iter().filter(|line| line.0 == i32::from(role));
                lines.cloned().collect()
            };
            let checks = [
                ("all zones", read.all == all),
                (
                    "the immutable zone",
                    read.immutable == context.zones.immutable,
                ),
                ("the compressed zone", read.compressed.is_empty()),
                (
                    "the incremental zone",
                    read.incremental == context.zones.incremental,
                ),
                ("the window", read.window == window),
                ("the user's messages", read.users == of_role(Role::User)),
                ("the count", read.count as usize == all.len()),
                ("the version", read.version == context.version),
                ("the last message", read.last.as_ref() == all.last()),
                ("beyond the end", read.beyond.is_none()),
                (
                    "the export",
                    read.export == all.iter().map(jsonl).collect::<String>(),
                ),
            ];
            let wrong = checks.into_iter().filter(|(_, is_right)| !is_right);
            let wrong: Vec<_> = wrong.map(|(what, _)| format!("{what} of {name}")).collect();
            self.findings.extend(wrong);
        }
    }

    pub(super) fn summary(&self) -> String {
        format!("{} changes, refused {:?}", self.done, self.refused)
    }
}

fn known(name: &str, immutable: &[Line]) -> Known {
    let mut known = Known::default();
    // The system prompt of the others was written when they were created.
    if name != "main" {
        known.version = 1;
        known.zones.immutable = immutable.to_vec();
    }
    known.lengths.insert(known.version, 0);
    known
}

/// All that can be read of a context.
struct Read {
    all: Vec<Line>,
    immutable: Vec<Line>,
    compressed: Vec<Line>,
    incremental: Vec<Line>,
    window: Vec<Line>,
    users: Vec<Line>,
    count: u32,
    version: u64,
    last: Option<Line>,
    beyond: Option<Line>,
    export: String,
}

impl Read {
    async fn of(contexts: &Contexts, name: &str) -> Self {
        let (session, context) = (SESSION.to_owned(), name.to_owned());
        let list = |zone, in_window| list(contexts, name, zone, in_window);
        let count = pb::CountMessagesRequest {
            session: session.clone(),
            context: context.clone(),
        };
        let count = contexts.clone().count_messages(count).await;
        let count = count.expect("an answer").into_inner();
        let export = pb::ExportContextRequest { session, context };
        let export = contexts.clone().export_context(export).await;
        let mut parts = export.expect("a stream").into_inner();
        let mut export = String::new();
        while let Some(part) = parts.message().await.expect("a part") {
            export += &part.jsonl;
        }
        Self {
            all: list(pb::Zone::Unspecified, false).await,
            immutable: list(pb::Zone::Immutable, false).await,
            compressed: list(pb::Zone::Compressed, false).await,
            incremental: list(pb::Zone::Incremental, false).await,
            window: list(pb::Zone::Incremental, true).await,
            users: find(contexts, name, Role::User).await,
            count: count.messages,
            version: count.version,
            last: match count.messages {
                0 => None,
                messages => get(contexts, name, messages - 1).await,
            },
            beyond: get(contexts, name, count.messages).await,
            export,
        }
    }
}

async fn list(contexts: &Contexts, name: &str, zone: pb::Zone, in_window: bool) -> Vec<Line> {
    let mut request = pb::ListMessagesRequest {
        session: SESSION.to_owned(),
        context: name.to_owned(),
        zone: zone.into(),
        in_window,
        page_size: 7,
        page_token: String::new(),
    };
    let mut lines = Vec::new();
    loop {
        let page = ask!(contexts, list_messages, request.clone()).expect("a page");
        lines.extend(page.messages.iter().map(|it| line(it.message.as_ref())));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return lines;
        }
    }
}

async fn find(contexts: &Contexts, name: &str, role: Role) -> Vec<Line> {
    let mut request = pb::FindMessagesRequest {
        session: SESSION.to_owned(),
        context: name.to_owned(),
        role: role.into(),
        page_size: 5,
        page_token: String::new(),
    };
    let mut lines = Vec::new();
    loop {
        let page = ask!(contexts, find_messages, request.clone()).expect("a page");
        lines.extend(page.messages.iter().map(|it| line(it.message.as_ref())));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return lines;
        }
    }
}

async fn get(contexts: &Contexts, name: &str, index: u32) -> Option<Line> {
    let request = pb::GetMessageRequest {
        session: SESSION.to_owned(),
        context: name.to_owned(),
        index,
    };
    let got = ask!(contexts, get_message, request).expect("an answer");
    got.message.as_ref().map(|it| line(Some(it)))
}

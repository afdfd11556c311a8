//! A client that changes contexts, and one that watches them.

use super::model::{Change, Line, Notice, line, message, notice};
use crate::support::link;
use cairn_proto::event::{self as wire, Role};
use cairn_proto::json;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::{Link, RpcError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

pub(super) const SESSION: &str = "s";
/// The contexts that all clients change.
pub(super) const SHARED: [&str; 3] = ["main", "a", "b"];

/// No answer of a server that is there takes so long; the request is sent again then.
pub(super) const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// Between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// A watcher that is at the end of the journal is sent nothing, and asks again.
const QUIET: Duration = Duration::from_secs(2);

pub(super) type Contexts = ContextServiceClient<Link>;

pub(super) fn contexts(address: &str) -> Contexts {
    Contexts::new(link(address))
}

/// A change that was asked for, and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) context: String,
    pub(super) expected_version: Option<u64>,
    pub(super) change: Change,
    pub(super) answer: Answer,
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Done {
        seq: u64,
        version: u64,
        popped: Option<Line>,
    },
    Refused(String),
}

/// The server was killed, or is not there yet.
pub(super) fn is_gone(status: &Status) -> bool {
    let codes = [
        Code::Unavailable,
        Code::Unknown,
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Internal,
        Code::ResourceExhausted,
    ];
    codes.contains(&status.code())
}

/// Sends a request until it is answered.
macro_rules! ask {
    ($client:expr, $method:ident, $request:expr) => {{
        let request = $request;
        loop {
            let mut client = $client.clone();
            match timeout(LONGEST_ANSWER, client.$method(request.clone())).await {
                Ok(Ok(answer)) => break Ok(answer.into_inner()),
                Ok(Err(status)) if !is_gone(&status) => break Err(status),
                Ok(Err(_)) | Err(_) => sleep(PAUSE).await,
            }
        }
    }};
}
pub(super) use ask;

/// A client that changes contexts.
pub(super) struct Client {
    contexts: Contexts,
    number: u64,
    random: u64,
    requests: u64,
    pub(super) asked: Vec<Asked>,
    /// Contexts that it made, watched and destroyed.
    pub(super) short_lived: usize,
}

impl Client {
    pub(super) fn new(address: &str, number: u64, seed: u64) -> Self {
        Self {
            contexts: contexts(address),
            number,
            random: seed.wrapping_mul(1_000_003).wrapping_add(number),
            requests: 0,
            asked: Vec::new(),
            short_lived: 0,
        }
    }

    /// SplitMix64.
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn request_id(&mut self) -> String {
        self.requests += 1;
        format!("client-{}-{}", self.number, self.requests)
    }

    fn line(&mut self) -> Line {
        let roles = [Role::User, Role::Assistant, Role::Tool];
        let role = roles[self.below(3) as usize];
        let (number, requests) = (self.number, self.requests);
        (
            role.into(),
            format!("{number}/{requests}/{}", self.below(1000)),
        )
    }

    fn change(&mut self) -> Change {
        let index = u32::try_from(self.below(12)).expect("an index");
        match self.below(24) {
            0..8 => Change::Append(self.line()),
            8..10 => Change::Extend((0..self.below(4)).map(|_| self.line()).collect()),
            10..13 => Change::Update(index, self.line()),
            13..16 => Change::Insert(index, self.line()),
            16..18 => Change::Remove(index),
            18..20 => Change::Pop,
            20 => Change::Retain(self.line().0),
            21 => Change::Clear,
            _ => Change::Import((0..self.below(4)).map(|_| self.line()).collect()),
        }
    }

    /// Asks for one change, or lives through a context of its own.
    pub(super) async fn act(&mut self) {
        if self.below(25) == 0 {
            return self.live_through_one().await;
        }
        let context = SHARED[self.below(3) as usize].to_owned();
        let expected_version = match self.below(2) {
            0 => None,
            _ => Some(self.version(&context).await),
        };
        let change = self.change();
        let answer = self.ask(&context, expected_version, &change).await;
        self.asked.push(Asked {
            context,
            expected_version,
            change,
            answer,
        });
    }

    async fn version(&self, context: &str) -> u64 {
        let request = pb::CountMessagesRequest {
            session: SESSION.to_owned(),
            context: context.to_owned(),
        };
        let counted = ask!(self.contexts, count_messages, request);
        counted.expect("an answer").version
    }

    async fn ask(
        &mut self,
        context: &str,
        expected_version: Option<u64>,
        change: &Change,
    ) -> Answer {
        let session = SESSION.to_owned();
        let (context, request_id) = (context.to_owned(), self.request_id());
        macro_rules! change {
            ($method:ident: $request:ident { $($field:ident: $value:expr),* }) => {{
                let request =
                    pb::$request { session, context, request_id, expected_version, $($field: $value),* };
                ask!(self.contexts, $method, request).map(|done| (done.seq, done.version, None))
            }};
        }
        let answer = match change {
            Change::Append(line) => change!(append_message: AppendMessageRequest {
                message: Some(message(line))
            }),
            Change::Extend(lines) => change!(extend_messages: ExtendMessagesRequest {
                messages: lines.iter().map(message).collect()
            }),
            Change::Update(index, line) => change!(update_message: UpdateMessageRequest {
                index: *index,
                message: Some(message(line))
            }),
            Change::Insert(index, line) => change!(insert_message: InsertMessageRequest {
                index: *index,
                message: Some(message(line))
            }),
            Change::Remove(index) => {
                change!(remove_message: RemoveMessageRequest { index: *index, count: 1 })
            }
            Change::Retain(role) => {
                change!(retain_messages: RetainMessagesRequest { role: *role })
            }
            Change::Clear => change!(clear_messages: ClearMessagesRequest {}),
            Change::Import(lines) => change!(import_context: ImportContextRequest {
                jsonl: lines.iter().map(jsonl).collect(),
                preserve_reasoning: false
            }),
            Change::Pop => {
                let request = pb::PopMessageRequest {
                    session,
                    context,
                    request_id,
                    expected_version,
                };
                let popped = ask!(self.contexts, pop_message, request);
                popped.map(|done| {
                    let popped = done.message.as_ref().map(|it| line(Some(it)));
                    (done.seq, done.version, popped)
                })
            }
        };
        match answer {
            Ok((seq, version, popped)) => Answer::Done {
                seq,
                version,
                popped,
            },
            Err(status) => Answer::Refused(RpcError::from_status(&status).reason_name().to_owned()),
        }
    }

    /// Makes a context, changes and destroys it, and watches all of its life afterwards.
    async fn live_through_one(&mut self) {
        let name = format!("short-{}-{}", self.number, self.requests);
        let request_id = self.request_id();
        let born = create(&self.contexts, &name, &[], request_id).await;
        let mut wanted = Vec::new();
        for _ in 0..self.below(4) {
            let said = self.line();
            let change = Change::Append(said.clone());
            let Answer::Done { seq, .. } = self.ask(&name, None, &change).await else {
                panic!("a context of one's own is changed");
            };
            wanted.push((seq, vec![Notice::Appended(said)]));
        }
        let request = pb::DestroyContextRequest {
            session: SESSION.to_owned(),
            request_id: self.request_id(),
            context: Some(wire::DestroyContext {
                context: name.clone(),
                conclusions: [(format!("client-{}", self.number), name.clone())].into(),
                ask_model: false,
            }),
        };
        ask!(self.contexts, destroy_context, request).expect("it is destroyed");
        let mut watcher = Watcher::new(self.contexts.clone(), &name, born);
        while !watcher.follow(u64::MAX).await {}
        let seen = watcher
            .seen
            .into_iter()
            .map(|(seq, _, notices)| (seq, notices));
        assert_eq!(seen.collect::<Vec<_>>(), wanted, "the life of {name}");
        self.short_lived += 1;
    }
}

pub(super) async fn create(
    contexts: &Contexts,
    name: &str,
    immutable: &[Line],
    request_id: String,
) -> u64 {
    let request = pb::CreateContextRequest {
        session: SESSION.to_owned(),
        request_id,
        context: Some(wire::CreateContext {
            name: name.to_owned(),
            system_prompt: format!("You are in {name}."),
            immutable: immutable.iter().map(message).collect(),
            window: Some(wire::Window { messages: 3 }),
            ..wire::CreateContext::default()
        }),
    };
    ask!(contexts, create_context, request)
        .expect("it is created")
        .seq
}

/// A message as a line of JSON.
pub(super) fn jsonl(line: &Line) -> String {
    let line = json::line("cairn.event.v1.Message", &message(line));
    line.expect("JSON") + "\n"
}

/// A client that watches one context, and continues from its cursor after each break.
pub(super) struct Watcher {
    contexts: Contexts,
    context: String,
    cursor: u64,
    /// Seq, version and notices of all events that have any.
    pub(super) seen: Vec<(u64, u64, Vec<Notice>)>,
    pub(super) breaks: usize,
}

impl Watcher {
    pub(super) fn new(contexts: Contexts, context: &str, after_seq: u64) -> Self {
        Self {
            contexts,
            context: context.to_owned(),
            cursor: after_seq,
            seen: Vec::new(),
            breaks: 0,
        }
    }

    /// Watches until it has seen all through `end`, which others set when they know it.
    pub(super) async fn watch(mut self, end: Arc<AtomicU64>) -> Self {
        while self.cursor < end.load(Ordering::Relaxed) {
            self.follow(end.load(Ordering::Relaxed)).await;
            self.breaks += 1;
        }
        self
    }

    /// Follows until the stream breaks or has come so far; `true` if the context has ended.
    async fn follow(&mut self, end: u64) -> bool {
        let request = pb::WatchContextRequest {
            session: SESSION.to_owned(),
            context: self.context.clone(),
            after_seq: self.cursor,
        };
        let mut stream = ask!(self.contexts, watch_context, request).expect("a stream");
        while self.cursor < end {
            let message = match timeout(QUIET, stream.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return true,
                Ok(Err(status)) => {
                    assert!(is_gone(&status), "{status:?}");
                    return false;
                }
                Err(_) => return false,
            };
            self.cursor = message.seq;
            if !message.notices.is_empty() {
                let notices = message.notices.iter().map(notice).collect();
                self.seen.push((message.seq, message.version, notices));
            }
        }
        false
    }
}

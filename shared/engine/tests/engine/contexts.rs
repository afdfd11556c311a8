//! Contexts over random histories, against a model of their description: zones, indices, notices.
//!
//! Clients create, switch, destroy and bridge contexts and change their messages, while turns and runs
//! with a plan complete, fail or use up their tool turns. Clients also change contexts in the middle of a turn:
//! other contexts while it works, and its own while it waits. Older messages give way to one during turns. After
//! each operation the session has the messages of the model, each
//! under the number that it got, and the journal gives a subscriber of each context the notices of the model.

mod model;

use self::model::{Change, Contexts, Line, Seen, Zones, line, message};
use crate::world::{World, chain, fold, look, tool_call, tool_step};
use cairn_engine::command::{
    BridgeContext, CancelRun, ChangeContext, Command, ContextOp, CreateContext, DestroyContext,
    SendMessage, Settlement, StartRun, SubmitTurn, SwitchContext, WhenBusy,
};
use cairn_engine::conversation::{CompactedMessages, CompactionKind};
use cairn_engine::event::{ContextCompacted, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Role, Usage};
use cairn_engine::pending::pending;
use cairn_engine::session::{RunStatus, Session};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

const NAMES: [&str; 4] = ["main", "a", "b", "c"];

/// Numbers that an operation is made of.
type Seed = (u8, u8, u8, u8);

struct Test {
    world: World,
    model: Contexts,
    /// What a subscriber of each context folds, and the messages that its notices gave.
    followed: BTreeMap<&'static str, (Session, Vec<Line>)>,
    /// Of each context, the last number that it gave, and the messages under their numbers.
    numbers: BTreeMap<String, (u32, BTreeMap<u32, Line>)>,
    lines: u32,
}

impl Test {
    fn new() -> Self {
        let mut world = World::new();
        world.limits.max_tool_turns = 1;
        let mut test = Self {
            world,
            model: Contexts::new(),
            followed: NAMES.map(|name| (name, Default::default())).into(),
            numbers: BTreeMap::new(),
            lines: 0,
        };
        test.check(&[]);
        test
    }

    fn line(&mut self, role: u8) -> Line {
        self.lines += 1;
        let role = [Role::User, Role::Assistant, Role::Tool][role as usize % 3];
        (role, format!("line {}", self.lines))
    }

    /// An operation, and the notices of it by context.
    fn play(&mut self, (kind, context, index, many): Seed) {
        let name = ["main", "a", "b", ""][context as usize % 4];
        match kind % 16 {
            0..9 => {
                let change = self.random_change(kind, index, many);
                self.change(name, &change, many);
            }
            9 => self.create(NAMES[context as usize % 4], many),
            10 => self.destroy(name),
            11 => self.switch(name),
            12 => self.bridge(name),
            13 => self.run(["the goal", "", " \n"][index as usize % 3]),
            _ => self.turn(name, index, many),
        }
    }

    fn random_change(&mut self, kind: u8, index: u8, many: u8) -> Change {
        let at = u32::from(index % 6);
        match kind % 9 {
            0 | 1 => Change::Append(self.line(many)),
            2 => Change::Extend((0..many % 4).map(|role| self.line(role)).collect()),
            3 => Change::Update(at, self.line(many)),
            4 => Change::Insert(at, self.line(many)),
            5 => Change::Remove(at),
            6 => Change::Pop,
            7 => Change::Retain([Role::User, Role::Assistant, Role::Tool][many as usize % 3]),
            _ => match index % 4 {
                0 => Change::Clear,
                1 => Change::Window(None),
                2 => Change::Window(Some(1 + u32::from(many % 4))),
                _ => Change::Append(self.line(many)),
            },
        }
    }

    /// Asks for a change, with an expected version that is right, wrong or not given.
    fn change(&mut self, name: &str, change: &Change, many: u8) {
        let version = self.world.session.context(name).map(|it| it.version);
        let expected_version = match many % 5 {
            0 => Some(version.unwrap_or_default() + 1),
            1 => version,
            _ => None,
        };
        let events = self.world.command(Command::ChangeContext(ChangeContext {
            context: name.to_owned(),
            expected_version,
            ops: ops(change),
        }));
        let is_busy = self.busy() == Some(self.model.name(name));
        let name = self.model.name(name);
        let Some(zones) = self.model.named.get_mut(&name) else {
            return self.refused(&events, "CONTEXT_NOT_FOUND");
        };
        if is_busy {
            return self.refused(&events, "CONTEXT_BUSY");
        }
        if many.is_multiple_of(5) {
            return self.refused(&events, "VERSION_MISMATCH");
        }
        let popped = zones.incremental.last().cloned();
        match zones.change(change) {
            Err(()) => self.refused(&events, "BAD_INDEX"),
            Ok(seen) => {
                let [Event { kind, .. }] = &events[..] else {
                    panic!("one event: {events:?}");
                };
                let EventKind::ContextChanged(changed) = kind else {
                    panic!("{kind:?}");
                };
                assert_eq!(Some(changed.version), version.map(|version| version + 1));
                if matches!(change, Change::Pop) {
                    assert_eq!(changed.popped.as_ref().map(line), popped);
                }
                self.check(&[(&name, seen)]);
            }
        }
    }

    /// The context whose turn works.
    fn busy(&self) -> Option<String> {
        let run = self.world.session.active_run();
        let run = run.filter(|run| run.status == RunStatus::Running)?;
        Some(run.turn.as_ref()?.context.clone())
    }

    fn refused(&mut self, events: &[Event], wanted: &str) {
        match events {
            [
                Event {
                    kind: EventKind::CommandRefused(refused),
                    ..
                },
            ] => {
                assert_eq!(refused.reason.name(), wanted, "{}", refused.message);
            }
            other => panic!("{wanted}: {other:?}"),
        }
        self.check(&[]);
    }

    fn create(&mut self, name: &str, many: u8) {
        let immutable: Vec<_> = (0..many % 3).map(|role| self.line(role)).collect();
        let events = self.world.command(Command::CreateContext(CreateContext {
            name: name.to_owned(),
            prompt: "Be brief.".to_owned(),
            immutable: immutable.iter().map(message).collect(),
            window: None,
            when_full: None,
            agent: String::new(),
        }));
        if self.model.named.contains_key(name) {
            return self.refused(&events, "CONTEXT_EXISTS");
        }
        let zones = Zones {
            immutable,
            ..Zones::default()
        };
        self.model.named.insert(name.to_owned(), zones);
        if let Some((_, replica)) = self.followed.get_mut(name) {
            replica.clear();
        }
        self.check(&[]);
    }

    fn destroy(&mut self, name: &str) {
        let events = self.world.command(Command::DestroyContext(DestroyContext {
            context: name.to_owned(),
            conclusions: vec![("key".to_owned(), format!("of {name}"))],
            ask_model: false,
        }));
        let name = self.model.name(name);
        if !self.model.named.contains_key(&name) {
            return self.refused(&events, "CONTEXT_NOT_FOUND");
        }
        if name == "main" {
            return self.refused(&events, "BAD_CONTEXT");
        }
        self.model.named.remove(&name);
        if self.model.active == name {
            self.model.active = "main".to_owned();
        }
        self.check(&[]);
    }

    fn switch(&mut self, name: &str) {
        let events = self.world.command(Command::SwitchContext(SwitchContext {
            context: name.to_owned(),
        }));
        let name = self.model.name(name);
        if !self.model.named.contains_key(&name) {
            return self.refused(&events, "CONTEXT_NOT_FOUND");
        }
        self.model.active = name;
        self.check(&[]);
    }

    fn bridge(&mut self, name: &str) {
        let events = self.world.command(Command::BridgeContext(BridgeContext {
            from: "main".to_owned(),
            to: name.to_owned(),
            values: vec![("key".to_owned(), format!("for {name}"))],
        }));
        let name = self.model.name(name);
        match self.model.named.contains_key(&name) {
            true if name == "main" => self.refused(&events, "BAD_CONTEXT"),
            true => self.check(&[]),
            false => self.refused(&events, "CONTEXT_NOT_FOUND"),
        }
    }

    /// A run with a plan: the active context gets its goal, if it has one, and its answer.
    fn run(&mut self, goal: &str) {
        self.world.command(Command::StartRun(StartRun {
            goal: goal.to_owned(),
            plan: Some(chain(vec![tool_step("one", "look")])),
            ..StartRun::default()
        }));
        self.check(&[]);
        self.world.result(1, 0, "seen");
        let answer = self.world.run().end.answer.clone();
        let mut lines = vec![(Role::User, goal.to_owned()), (Role::Assistant, answer)];
        lines.retain(|(_, text)| !text.trim().is_empty());
        let active = self.model.active.clone();
        self.append(&active, &lines);
    }

    /// The notices of messages at the end.
    fn append(&mut self, name: &str, lines: &[Line]) {
        let zones = self.model.named.get_mut(name).unwrap();
        let seen = zones.change(&Change::Extend(lines.to_vec())).unwrap();
        self.check(&[(name, seen)]);
    }

    /// A turn with a call, which may wait for an approval. It completes, fails, uses up its tool turns, is cancelled
    /// or interrupted.
    fn turn(&mut self, asked: &str, end: u8, many: u8) {
        if !self.begin_turn(asked, WhenBusy::Refuse) {
            return;
        }
        let waits = many.is_multiple_of(2);
        let call = match waits {
            true => tool_call("pay", &json!({})),
            false => look(),
        };
        self.world.reply(1, "", std::slice::from_ref(&call));
        self.said((Role::Assistant, call.name));
        for step in 0..1 + many % 3 {
            let change = self.random_change(many ^ step, end.wrapping_add(step), many ^ step);
            let name = [asked, "main", "a", "b"][usize::from(end ^ step) % 4];
            self.change(name, &change, many ^ step);
        }
        if many.is_multiple_of(4) {
            self.compact(end);
        }
        if waits {
            let asked = pending(&self.world.session)[0].id().to_string();
            self.world.answer(&asked, Settlement::Approve);
            self.check(&[]);
        }
        self.world.result(1, 0, "seen");
        self.said((Role::Tool, "seen".to_owned()));
        if many.is_multiple_of(3) {
            self.steer();
        }
        self.end_turn(asked, end);
    }

    /// False if there is no such context.
    fn begin_turn(&mut self, asked: &str, when_busy: WhenBusy) -> bool {
        let said = self.line(0);
        let events = self.world.command(Command::SubmitTurn(SubmitTurn {
            context: asked.to_owned(),
            message: Some(message(&said)),
            when_busy,
            ..SubmitTurn::default()
        }));
        let name = self.model.name(asked);
        if !self.model.named.contains_key(&name) {
            self.refused(&events, "CONTEXT_NOT_FOUND");
            return false;
        }
        self.model.turn = Some((name, vec![said]));
        self.check(&[]);
        true
    }

    fn said(&mut self, line: Line) {
        let (_, said) = self.model.turn.as_mut().unwrap();
        said.push(line);
        self.check(&[]);
    }

    /// Older messages of the context of the turn give way to one, if it has so many.
    fn compact(&mut self, many: u8) {
        let (name, _) = self.model.turn.clone().unwrap();
        let context = self.world.session.context(&name).unwrap();
        let last = usize::from(many % 4);
        let Some(entry) = context.conversation.incremental.get(last) else {
            return;
        };
        let (role, what, kind) = match many.is_multiple_of(3) {
            true => (Role::User, "summary", CompactionKind::Summary),
            false => (Role::Assistant, "view", CompactionKind::History),
        };
        let line = (role, format!("{what} of context {name}"));
        let compacted = ContextCompacted {
            attempt: self.world.attempt(1),
            context: name.clone(),
            messages: CompactedMessages {
                through: entry.number,
                ..CompactedMessages::default()
            },
            kind,
            text: line.1.clone(),
            usage: Usage::default(),
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
            version: context.version + 1,
            replaced: last as u32 + 1,
            tokens_before: 2,
            tokens_after: 1,
        };
        self.world.foreign(EventKind::ContextCompacted(compacted));
        let seen = self.model.named.get_mut(&name).unwrap();
        let seen = seen.compact(last, line);
        self.check(&[(&name, vec![seen])]);
    }

    fn steer(&mut self) {
        let said = self.line(0);
        let (step, message) = (None, message(&said));
        let steering = SendMessage { step, message };
        self.world.command(Command::SendMessage(steering));
        self.said(said);
    }

    fn end_turn(&mut self, asked: &str, end: u8) {
        match end % 7 {
            0 => drop(self.world.fail(1, failure())),
            6 => {
                self.world.reply(1, "once more", &[look()]);
                assert_eq!(self.world.run().status, RunStatus::Failed);
            }
            1 => {
                let cancel = CancelRun::default();
                self.world.command(Command::CancelRun(cancel));
            }
            other => {
                if other == 2 {
                    self.begin_turn(asked, WhenBusy::Interrupt);
                }
                let mut lines = self.own();
                self.world.reply(1, "the answer", &[]);
                lines.push((Role::Assistant, "the answer".to_owned()));
                let (name, _) = self.model.turn.take().unwrap();
                return self.append(&name, &lines);
            }
        }
        self.model.turn = None;
        self.check(&[]);
    }

    /// What was said in the turn that has not ended.
    fn own(&self) -> Vec<Line> {
        let said = self.world.session.said(self.world.attempt(1));
        said.iter().map(|message| line(message)).collect()
    }

    /// The request of the turn that has not ended is as the model says, which knows nothing of reminders: a
    /// change of the context may take one out, and then it is repeated in the turn.
    fn check_turn(&self) {
        let Some((name, said)) = &self.model.turn else {
            return;
        };
        let mut own = self.own();
        own.retain(|(_, text)| !text.starts_with("<system-reminder>"));
        assert_eq!(own, *said, "{name}");
        let sent = self.world.session.conversation(self.world.attempt(1));
        let sent = sent.unwrap();
        let before = [&sent.immutable, &sent.compressed, &sent.incremental];
        let before = before.into_iter().flatten();
        let before: Vec<_> = before.map(|entry| line(&entry.message)).collect();
        assert!(before.iter().eq(self.model.named[name].sent()), "{name}");
    }

    /// No message got another number, and no number was given twice.
    fn check_numbers(&mut self, noticed: &[(&str, Vec<Seen>)]) {
        let contexts = &self.world.session.contexts;
        self.numbers.retain(|name, _| contexts.contains_key(name));
        for (name, context) in contexts {
            let it = &context.conversation;
            let zones = [&it.immutable, &it.compressed, &it.incremental, &it.behind];
            let entries: Vec<_> = zones.into_iter().flatten().collect();
            let now = entries
                .iter()
                .map(|entry| (entry.number, line(&entry.message)));
            let now: BTreeMap<u32, Line> = now.collect();
            assert_eq!(now.len(), entries.len(), "{name}: a number comes twice");
            let (last, before) = self.numbers.remove(name).unwrap_or_default();
            let mut notices = noticed.iter().filter(|(noticed, _)| noticed == name);
            let is_update = |seen: &Seen| matches!(seen, Seen::Updated(..));
            let has_update = notices.any(|(_, seen)| seen.iter().any(is_update));
            for (number, line) in &now {
                match before.get(number) {
                    None => assert!(*number > last, "{name}: {number} was given before"),
                    Some(known) => assert!(known == line || has_update, "{name}: {number}"),
                }
            }
            self.numbers.insert(name.clone(), (it.last_number, now));
        }
    }

    /// The session is as the model says, and the events since the last check give these notices.
    fn check(&mut self, noticed: &[(&str, Vec<Seen>)]) {
        self.check_turn();
        self.check_numbers(noticed);
        let session = &self.world.session;
        assert!(session.contexts.keys().eq(self.model.named.keys()));
        assert_eq!(session.active_context, self.model.active);
        for (name, zones) in &self.model.named {
            let context = session.context(name).unwrap();
            let lines: Vec<_> = context.messages().map(line).collect();
            assert!(
                lines.iter().eq(zones.all()),
                "{name}: {lines:?}, not {zones:?}"
            );
            assert_eq!(context.len(), lines.len());
            assert_eq!(context.is_empty(), lines.is_empty());
            let bytes: u64 = context.messages().map(Message::bytes).sum();
            assert_eq!(context.bytes, bytes, "{name}");
            for role in [Role::User, Role::Assistant, Role::Tool] {
                let found = context.messages().filter(|message| message.role == role);
                assert_eq!(found.count(), zones.of_role(role));
            }
        }
        for (name, (followed, replica)) in &mut self.followed {
            let known = followed.seq as usize;
            let mut seen = Vec::new();
            for (event, seq) in self.world.journal[known..].iter().zip(known as u64 + 1..) {
                for noted in followed.apply_noting(seq, event).unwrap() {
                    let context = followed.context(&noted.context).unwrap();
                    assert_eq!(noted.version, context.version);
                    if noted.context == *name {
                        seen.extend(noted.notices.iter().map(Seen::of));
                    }
                }
            }
            let wanted = noticed.iter().find(|(noticed, _)| noticed == name);
            assert_eq!(seen, wanted.map_or(Vec::new(), |it| it.1.clone()), "{name}");
            for seen in seen {
                seen.replay(replica);
            }
            if let Some(zones) = self.model.named.get(*name) {
                assert_eq!(*replica, zones.incremental, "{name}");
            }
        }
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::Llm, "Broken", "it broke")
}

fn ops(change: &Change) -> Vec<ContextOp> {
    vec![match change {
        Change::Append(line) => ContextOp::Append(message(line)),
        Change::Extend(lines) => {
            let messages = lines.iter().map(message);
            return messages.map(ContextOp::Append).collect();
        }
        Change::Update(index, line) => ContextOp::Update {
            index: *index,
            message: message(line),
        },
        Change::Insert(index, line) => ContextOp::Insert {
            index: *index,
            message: message(line),
        },
        Change::Remove(index) => ContextOp::Remove { index: *index },
        Change::Pop => ContextOp::Pop,
        Change::Retain(role) => ContextOp::Retain(*role),
        Change::Clear => ContextOp::Clear,
        Change::Window(window) => ContextOp::SetWindow(*window),
    }]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn contexts_are_as_they_are_described(seeds in prop::collection::vec(any::<Seed>(), 1..60)) {
        let mut test = Test::new();
        for seed in seeds {
            test.play(seed);
        }
        prop_assert_eq!(&fold(&test.world.journal), &test.world.session);
    }
}

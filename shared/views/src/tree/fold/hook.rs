//! What hooks changed.

use super::super::{Node, NodeKind, NodeStatus, Tree, describe};
use super::Origin;
use crate::hooked::{Replaced, replaced, sent};
use cairn_engine::event::{AttemptRef, CallFinished, CallRef, HooksAnswered};

impl Tree {
    pub(super) fn take_hooks(&mut self, answered: &HooksAnswered, origin: Origin) {
        for (call, arguments) in sent(answered) {
            let action = self.working_call(call).and_then(|call| call.action);
            if let Some(action) = action {
                self.nodes[action].set("sent", arguments);
            }
        }
        match replaced(answered) {
            Some(Replaced::Reply {
                attempt,
                tool_turn,
                text,
            }) => self.replace_reply(attempt, tool_turn, text, origin),
            Some(Replaced::Result { call, result }) => {
                self.replace_result(call, &result.output, result.is_blocked);
            }
            None => {}
        }
    }

    fn replace_reply(&mut self, attempt: AttemptRef, tool_turn: u32, text: &str, origin: Origin) {
        let key = (attempt.run, attempt.step);
        let Some(mut working) = self.working.remove(&key) else {
            return;
        };
        if working.tool_turn == tool_turn {
            match working.thought {
                Some(thought) => self.nodes[thought].say(text),
                None if text.trim().is_empty() => {}
                None => self.add_thought(&mut working, text, origin),
            }
        }
        self.working.insert(key, working);
    }

    fn replace_result(&mut self, name: CallRef, output: &str, is_blocked: bool) {
        let action = self.working_call(name).and_then(|call| call.action);
        let Some(action) = action else {
            return;
        };
        let children = self.nodes[action].children.iter().copied();
        let result = children
            .rev()
            .find(|child| self.nodes[*child].kind == NodeKind::Result);
        let Some(result) = result else {
            return;
        };
        if is_blocked {
            self.nodes[action].status = NodeStatus::Failed;
            self.nodes[result].status = NodeStatus::Failed;
            self.nodes[result].set("reason", CallFinished::HOOK_BLOCKED);
        }
        let node = &mut self.nodes[result];
        node.description = describe::result(output, "");
        node.set("output", output);
        node.data
            .retain(|(name, value)| *name != "rest" && !value.is_empty());
    }
}

impl Node {
    /// Takes what the model said. An empty text is no content.
    pub(super) fn say(&mut self, text: &str) {
        self.description = describe::text(text);
        self.data.retain(|(name, _)| *name != "content");
        if !text.is_empty() {
            self.data.push(("content", text.to_owned()));
        }
    }
}

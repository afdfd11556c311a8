//! A frame that comes in pieces: a server must not fill the memory.

use super::super::{MESSAGE_BYTES, MOST_MESSAGES_BYTES, MOST_SKIPPED_BYTES};
use super::scan::Scan;
use super::{read, unreadable};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The frame has no end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

/// The bytes that all frames of one server may have at one time, and each of them.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    free: Arc<Semaphore>,
    /// Most bytes of one frame.
    most: usize,
}

impl Room {
    /// Room for frames of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(MOST_MESSAGES_BYTES)),
            most,
        }
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::new(MESSAGE_BYTES)
    }
}

/// The pieces of a frame up to its end.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The request that is answered here, where the connection says so.
    asked: Option<RequestId>,
    bytes: Vec<u8>,
    length: usize,
    room: Room,
    /// The part of the room that the bytes have.
    held: Option<OwnedSemaphorePermit>,
    /// In place of the bytes, once there are too many.
    skipped: Option<Skipped>,
}

#[derive(Debug)]
struct Skipped {
    scan: Scan,
    why: String,
}

impl Gathered {
    pub(crate) fn new(asked: Option<RequestId>, room: Room) -> Self {
        Self {
            asked,
            room,
            ..Self::default()
        }
    }

    /// # Errors
    /// There is too much of it even to skip it.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<(), Endless> {
        self.length += piece.len();
        if self.length > MOST_SKIPPED_BYTES {
            return Err(Endless);
        }
        if self.skipped.is_none()
            && let Some(why) = self.too_much(piece.len())
        {
            let mut scan = Scan::default();
            scan.add(&std::mem::take(&mut self.bytes));
            self.held = None;
            self.skipped = Some(Skipped { scan, why });
        }
        match &mut self.skipped {
            Some(skipped) => skipped.scan.add(piece),
            None => self.bytes.extend_from_slice(piece),
        }
        Ok(())
    }

    /// Why so many further bytes are not kept. Nobody waits for room: what is not read of a connection may hold
    /// up what has it.
    fn too_much(&mut self, more: usize) -> Option<String> {
        if self.length > self.room.most {
            let most = self.room.most >> 20;
            return Some(format!("it has more than {most} MiB"));
        }
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let Ok(more) = self.room.free.clone().try_acquire_many_owned(more) else {
            let most = MOST_MESSAGES_BYTES >> 20;
            return Some(format!("its server sends more than {most} MiB at one time"));
        };
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        None
    }

    /// The messages of the frame, which ends here. The next one begins.
    pub(crate) fn end(&mut self) -> Vec<ServerJsonRpcMessage> {
        self.length = 0;
        // A large one does not keep its memory, and has its room until it is read.
        let (bytes, _held) = (std::mem::take(&mut self.bytes), self.held.take());
        let asked = self.asked.as_ref();
        let Some(Skipped { scan, why }) = self.skipped.take() else {
            return read(&bytes, asked);
        };
        let answer = scan.answers(asked).map(|id| unreadable(id, why));
        answer.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::JsonRpcMessage;

    fn gathered(pieces: &[&[u8]]) -> (Vec<ServerJsonRpcMessage>, Gathered) {
        let mut gathered = Gathered::default();
        for piece in pieces {
            gathered.add(piece).unwrap();
        }
        (gathered.end(), gathered)
    }

    #[test]
    fn a_frame_that_is_too_large_ends_its_request_wherever_its_id_is() {
        let large = vec![b'x'; MESSAGE_BYTES];
        for (before, after) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":""#, r#""}"#),
            (r#"{"result":""#, r#"","jsonrpc":"2.0","id":7}"#),
        ] {
            let (messages, mut next) = gathered(&[before.as_bytes(), &large, after.as_bytes()]);
            let [JsonRpcMessage::Error(error)] = messages.as_slice() else {
                panic!("{messages:?}");
            };
            assert_eq!(error.id, Some(RequestId::Number(7)));
            assert_eq!(error.error.message, "it has more than 16 MiB");
            next.add(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#)
                .unwrap();
            assert_eq!(next.end().len(), 1, "the next frame is read");
        }
        assert!(gathered(&[&large, b"log"]).0.is_empty());
    }

    #[test]
    fn an_operator_may_allow_larger_frames() {
        let text = "x".repeat(2 << 20);
        let message = format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{text}"}}"#);
        for (most, is_read) in [(4 << 20, true), (1 << 20, false)] {
            let mut frame = Gathered::new(None, Room::new(most));
            frame.add(message.as_bytes()).unwrap();
            let messages = frame.end();
            let was_read = matches!(messages.as_slice(), [JsonRpcMessage::Response(_)]);
            assert_eq!(was_read, is_read, "{most}");
        }
    }

    #[test]
    fn a_frame_without_end_is_given_up() {
        let piece = vec![b'x'; 1 << 20];
        let mut gathered = Gathered::default();
        let given_up = (0..1_000).find(|_| gathered.add(&piece) == Err(Endless));
        assert_eq!(given_up, Some(MOST_SKIPPED_BYTES >> 20));
    }

    #[test]
    fn frames_of_one_server_share_their_room() {
        let room = Room {
            free: Arc::new(Semaphore::new(4096)),
            most: MESSAGE_BYTES,
        };
        let large = vec![b'x'; 900];
        let frame = || {
            let mut frame = Gathered::new(Some(RequestId::Number(7)), room.clone());
            frame.add(br#"{"jsonrpc":"2.0","result":""#).unwrap();
            frame.add(&large).unwrap();
            frame.add(br#""}"#).unwrap();
            frame
        };
        let is_read = |mut frame: Gathered| match frame.end().as_slice() {
            [JsonRpcMessage::Response(_)] => true,
            [JsonRpcMessage::Error(error)] => {
                let why = "its server sends more than 64 MiB at one time";
                assert_eq!(error.error.message, why);
                false
            }
            other => panic!("{other:?}"),
        };
        let frames: Vec<Gathered> = (0..5).map(|_| frame()).collect();
        let read: Vec<bool> = frames.into_iter().map(is_read).collect();
        assert_eq!(read, [true, true, true, true, false]);
        assert!(is_read(frame()), "the others are over");
    }
}

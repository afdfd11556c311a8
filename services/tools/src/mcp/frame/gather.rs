//! A frame that comes in pieces: a server must not fill the memory.

use super::super::{MOST_MESSAGE_BYTES, MOST_SKIPPED_BYTES};
use super::scan::Scan;
use super::{read, unreadable};
use rmcp::model::{RequestId, ServerJsonRpcMessage};

/// The frame has no end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

/// The pieces of a frame up to its end.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The request that is answered here, where the connection says so.
    asked: Option<RequestId>,
    bytes: Vec<u8>,
    length: usize,
    /// In place of the bytes, once there are too many.
    scan: Option<Scan>,
}

impl Gathered {
    pub(crate) fn new(asked: Option<RequestId>) -> Self {
        Self {
            asked,
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
        if self.scan.is_none() && self.length > MOST_MESSAGE_BYTES {
            let mut scan = Scan::default();
            scan.add(&std::mem::take(&mut self.bytes));
            self.scan = Some(scan);
        }
        match &mut self.scan {
            Some(scan) => scan.add(piece),
            None => self.bytes.extend_from_slice(piece),
        }
        Ok(())
    }

    /// The messages of the frame, which ends here. The next one begins.
    pub(crate) fn end(&mut self) -> Vec<ServerJsonRpcMessage> {
        self.length = 0;
        // A large one does not keep its memory.
        let bytes = std::mem::take(&mut self.bytes);
        let asked = self.asked.as_ref();
        let Some(scan) = self.scan.take() else {
            return read(&bytes, asked);
        };
        let too_large = |id| {
            let most = MOST_MESSAGE_BYTES >> 20;
            unreadable(id, format!("it has more than {most} MiB"))
        };
        scan.answers(asked).map(too_large).into_iter().collect()
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
        let large = vec![b'x'; MOST_MESSAGE_BYTES];
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
    fn a_frame_without_end_is_given_up() {
        let piece = vec![b'x'; 1 << 20];
        let mut gathered = Gathered::default();
        let given_up = (0..1_000).find(|_| gathered.add(&piece) == Err(Endless));
        assert_eq!(given_up, Some(MOST_SKIPPED_BYTES >> 20));
    }
}

//! Pictures for models that see: which of a conversation are shown, and their bytes.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::{
    blocking,
    engine::{Message, StepRequest},
    file::FileRef,
    ids::FileId,
};

use crate::{files::FileStore, providers::Pictures};

/// A picture above this is told by its line: the APIs take 5 MB of base64.
const LARGEST: u64 = 3_750_000;
/// A request shows no more bytes of pictures, and no more pictures: the newest.
const ALL: Room = Room { bytes: 12_000_000, count: 20 };
/// What tools show in a turn takes no more of that: what the person attached is still there at its end.
const OF_TOOLS: Room = Room { bytes: 8_000_000, count: 10 };
/// The oldest of those are left out so many at a time, so that most requests begin as the one before, which providers
/// keep. As many as are left then have room.
const LEFT_OUT: usize = 2;

/// A picture for an agent whose model sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub mime: String,
    /// In base64.
    pub data: String,
}

/// What is left for pictures.
#[derive(Clone, Copy)]
struct Room {
    bytes: u64,
    count: usize,
}

impl Room {
    fn takes(&mut self, file: &FileRef) -> bool {
        let fits = file.size <= self.bytes && self.count > 0;
        if fits {
            self.bytes -= file.size;
            self.count -= 1;
        }
        fits
    }
}

fn is_shown(file: &&FileRef) -> bool {
    file.is_picture() && file.size <= LARGEST
}

fn pictures(messages: &[Message]) -> impl Iterator<Item = &FileRef> {
    messages.iter().flat_map(Message::files).filter(is_shown)
}

/// The newest of these that there is room for.
fn newest<'a>(mut pictures: &'a [&'a FileRef]) -> &'a [&'a FileRef] {
    let fits = |pictures: &[&FileRef]| {
        let mut room = OF_TOOLS;
        pictures.iter().all(|file| room.takes(file))
    };
    while !fits(pictures) {
        pictures = pictures.get(LEFT_OUT..).unwrap_or_default();
    }
    pictures
}

/// The pictures that a request shows: those of its turn, then of earlier turns, the newest first, as long as there is room
/// for all of a turn.
fn chosen(request: &StepRequest) -> (Vec<FileRef>, usize) {
    let mut room = ALL;
    let is_attached = |message: &&Message| matches!(message, Message::Files(_));
    let (attached, told): (Vec<&Message>, Vec<&Message>) =
        request.messages.iter().partition(is_attached);
    let told: Vec<&FileRef> = told.into_iter().flat_map(Message::files).filter(is_shown).collect();
    let attached = attached.into_iter().flat_map(Message::files).filter(is_shown);
    let own = newest(&told).iter().copied().chain(attached).filter(|file| room.takes(file));
    let mut chosen: Vec<FileRef> = own.cloned().collect();
    let mut from = request.earlier.len();
    for turn in request.earlier.iter().rev() {
        if !pictures(turn).all(|file| room.takes(file)) {
            break;
        }
        chosen.extend(pictures(turn).cloned());
        from -= 1;
    }
    (chosen, from)
}

/// Reads the pictures that a request shows. One that is gone is told by its line.
pub(super) async fn load(files: &FileStore, request: &StepRequest) -> Pictures {
    let (chosen, from) = chosen(request);
    Pictures { encoded: encoded(files, chosen).await, from }
}

/// Reads the pictures that people attached in a conversation, oldest first: the newest that there is room for.
pub(super) async fn attached(files: &FileStore, request: &StepRequest) -> Vec<Picture> {
    let earlier = request.earlier.iter().flat_map(|turn| turn.iter());
    let messages = earlier.chain(request.messages.iter());
    let attached = messages.filter(|message| matches!(message, Message::Files(_)));
    let attached: Vec<&FileRef> = attached.flat_map(Message::files).filter(is_shown).collect();
    let mut room = ALL;
    let newest = attached.into_iter().rev().take_while(|file| room.takes(file)).cloned();
    let newest: Vec<FileRef> = newest.collect();
    let mut encoded = encoded(files, newest.clone()).await;
    let shown = newest.into_iter().rev().filter_map(|file| {
        // One that was attached again is shown once.
        Some(Picture { data: encoded.remove(&file.id)?, mime: file.mime })
    });
    shown.collect()
}

/// Reads the pictures of one result, the newest that there is room for.
pub(super) async fn of_result(files: &FileStore, result: &[FileRef]) -> HashMap<FileId, String> {
    let shown: Vec<&FileRef> = result.iter().filter(is_shown).collect();
    encoded(files, newest(&shown).iter().copied().cloned().collect()).await
}

async fn encoded(files: &FileStore, chosen: Vec<FileRef>) -> HashMap<FileId, String> {
    if chosen.is_empty() {
        return HashMap::new();
    }
    let files = files.clone();
    let read = blocking::run(move || {
        let read = chosen.into_iter().filter_map(|file| match files.read(&file) {
            Ok(bytes) => Some((file.id, STANDARD.encode(bytes))),
            Err(error) => {
                tracing::warn!(file = %file.id, %error, "a picture cannot be read; the model is not shown it");
                None
            }
        });
        read.collect()
    });
    read.await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hivewright_actors::engine::{FixedMessages, ToolOutput, Unbooked};
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn picture(name: &str, size: u64) -> FileRef {
        FileRef {
            id: name.into(),
            name: name.to_owned(),
            mime: "image/png".to_owned(),
            size,
            digest: name.to_owned(),
            path: None,
        }
    }

    fn shown(earlier: &[&[(&str, u64)]], own: &[(&str, u64)]) -> (Vec<String>, usize) {
        let files = |some: &[(&str, u64)]| {
            Message::Files(some.iter().map(|(name, size)| picture(name, *size)).collect())
        };
        let earlier: Vec<Message> = earlier.iter().map(|some| files(some)).collect();
        let (chosen, from) = chosen(&request(&earlier, files(own)));
        (chosen.into_iter().map(|file| file.digest).collect(), from)
    }

    fn request(earlier: &[Message], own: Message) -> StepRequest {
        let turn = |message: &Message| Arc::new(FixedMessages::new(vec![message.clone()]));
        StepRequest {
            team: "main".into(),
            turn: "turn".into(),
            step: 1,
            task: None,
            system: Arc::default(),
            tools: Arc::default(),
            earlier: earlier.iter().map(turn).collect(),
            messages: Arc::new(vec![Message::User("look".into()), own]),
            thinking: None,
            unbooked: Unbooked::default(),
            cancel: CancellationToken::new(),
        }
    }

    #[test]
    fn the_newest_pictures_are_shown_as_far_as_they_fit() {
        let (few, all) = shown(&[&[("a", 10)], &[], &[("b", 10)]], &[("c", 10)]);
        let big = 3_500_000;
        let (many, from) = shown(
            &[&[("a", big)], &[("b", big)], &[("c", big)]],
            &[("d", big), ("e", LARGEST + 1)],
        );

        assert_eq!((few, all), (["c", "b", "a"].map(str::to_owned).to_vec(), 0));
        assert_eq!((many, from), (["d", "c", "b"].map(str::to_owned).to_vec(), 1));
    }

    /// TO-82: pictures of tools leave room for what the person attached, and the newest are always among those shown.
    #[test]
    fn the_newest_pictures_of_tools_are_shown_beside_those_of_the_person() {
        let shown = |sizes: &[u64]| {
            let result = |(place, size): (usize, &u64)| ToolOutput {
                id: "call".into(),
                name: "look".to_owned(),
                content: String::new(),
                fault: None,
                // Of the same content: only those that are chosen are shown.
                pictures: vec![FileRef {
                    digest: "same".to_owned(),
                    ..picture(&place.to_string(), *size)
                }],
            };
            let results = sizes.iter().enumerate().map(result).collect();
            let attached = Message::Files(vec![picture("attached", 3_000_000)]);
            let request = StepRequest {
                messages: Arc::new(vec![attached, Message::ToolResults(results)]),
                ..request(&[], Message::User("look".into()))
            };
            let chosen = chosen(&request).0.into_iter();
            chosen.map(|file| file.id.as_str().to_owned()).collect::<Vec<_>>()
        };

        assert_eq!(shown(&[10; 2]), ["0", "1", "attached"]);
        assert_eq!(shown(&[10; 11])[..2], ["2", "3"]);
        assert_eq!(shown(&[10; 12]).len(), 11);
        assert_eq!(shown(&[LARGEST; 3]), ["2", "attached"]);
        assert_eq!(shown(&[LARGEST; 4]), ["2", "3", "attached"]);
        assert_eq!(shown(&[10, LARGEST + 1]), ["0", "attached"]);
    }

    #[test]
    fn other_files_are_no_pictures() {
        let text = FileRef { mime: "text/plain".to_owned(), ..picture("t", 1) };

        assert_eq!(pictures(&[Message::Files(vec![text])]).count(), 0);
    }
}

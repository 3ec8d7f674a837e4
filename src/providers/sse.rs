//! Server-sent events, from bytes that arrive in any pieces.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its place in the stream; empty if the server gave none.
    pub(crate) id: String,
    /// Its type; empty if the server gave none.
    pub(crate) name: String,
    /// Its data lines, joined.
    pub(crate) data: String,
}

/// Cuts a stream into events. It only holds state, so a reader that is dropped between two pieces
/// loses nothing but what it did not read.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it belongs to the same line end.
    after_return: bool,
    past_first_line: bool,
    event: Event,
    has_data: bool,
}

impl Parser {
    /// Takes the next bytes and gives the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let [first, after_first @ ..] = rest {
            let after_return = std::mem::take(&mut self.after_return);
            if after_return && *first == b'\n' {
                rest = after_first;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line, ending) = rest.split_at(end.unwrap_or(rest.len()));
            self.line.extend_from_slice(line);
            rest = match ending {
                [ending, rest @ ..] => {
                    self.after_return = *ending == b'\r';
                    events.extend(self.end_line());
                    rest
                }
                [] => ending,
            };
        }
        events
    }

    /// Gives the event at the end of a stream that was not closed by an empty line.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event()
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut bytes = std::mem::take(&mut self.line);
        let ended = self.take_line(&bytes);
        // Its room serves the next line.
        bytes.clear();
        self.line = bytes;
        ended
    }

    fn take_line(&mut self, bytes: &[u8]) -> Option<Event> {
        let line = String::from_utf8_lossy(bytes);
        let line = if !std::mem::replace(&mut self.past_first_line, true) {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        } else {
            &line
        };
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = value.to_owned(),
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments have an empty field; when to come back is for clients to know.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into(), ..Event::default() }
    }

    fn read(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish());
        events
    }

    /// SE-117
    #[test]
    fn comments_and_unknown_fields_are_skipped() {
        let events =
            read(&[b"\xef\xbb\xbf: hello\n\nid: 7\nretry: 5\nevent: a\ndata: 1\n\nevent: b\n\n"]);

        let numbered = Event { id: "7".into(), ..event("a", "1") };
        assert_eq!(events, [numbered]);
    }

    #[test]
    fn data_lines_are_joined_and_lose_one_space() {
        let events = read(&[b"data: one\ndata:  two\ndata:three\ndata\n\n"]);

        assert_eq!(events, [event("", "one\n two\nthree\n")]);
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(read(&[b"data: 1\n\ndata: 2"]), [event("", "1"), event("", "2")]);
    }

    proptest! {
        #[test]
        fn the_split_of_the_bytes_does_not_matter(
            events in prop::collection::vec(("[a-z]{0,5}", "[ -~äö€😀]{0,12}(\n[a-z:]{0,4}){0,2}"), 0..6),
            ending in prop::sample::select(vec!["\n", "\r", "\r\n"]),
            comment in any::<bool>(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut wire = String::new();
            for (name, data) in &events {
                if comment {
                    wire += &format!(": keep alive{ending}");
                }
                wire += &format!("event: {name}{ending}");
                for line in data.split('\n') {
                    wire += &format!("data: {line}{ending}");
                }
                wire += ending;
            }
            let bytes = wire.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();

            let expected: Vec<Event> = events.iter().map(|(name, data)| event(name, data)).collect();
            prop_assert_eq!(read(&pieces), expected);
        }
    }
}

//! Output of a conversation: above the prompt of a terminal, on a terminal without one, or on the two
//! streams of a script.

use super::{
    editor::Printer,
    markdown::Markdown,
    screen::{self, Screen, Tone, complain, printable},
    transcript::Print,
};

/// A terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// Where a conversation is printed.
#[derive(Debug)]
pub(super) struct ChatOutput {
    screen: Screen,
    /// Prints above the prompt, if there is one.
    printer: Option<Printer>,
    /// For a person who reads it as it comes.
    markdown: Option<Markdown>,
    at_line_start: bool,
}

impl ChatOutput {
    pub(super) fn new(screen: Screen, printer: Option<Printer>) -> Self {
        let markdown = screen.live.then(|| Markdown::new(screen.colour));
        Self { screen, printer, markdown, at_line_start: true }
    }

    pub(super) fn print(&mut self, print: Print) {
        match print {
            // The result is a document.
            Print::Text(_) if self.screen.json => {}
            Print::Text(text) => {
                let ready = match &mut self.markdown {
                    Some(markdown) => markdown.push(&printable(&text), width()),
                    None => text,
                };
                self.write(ready);
            }
            Print::EndLine => self.end_line(),
            Print::Remark(line) => {
                self.end_line();
                if !self.screen.quiet {
                    self.line(Tone::Faint, &line);
                }
            }
            Print::Error(line) => {
                self.end_line();
                self.line(Tone::Bad, &line);
            }
        }
    }

    /// Prints what has to be seen, wanted or not.
    pub(super) fn urge(&mut self, text: &str) {
        self.end_line();
        self.line(Tone::Doubtful, text.trim_end());
    }

    /// The person has ended the line by entering theirs.
    pub(super) fn entered(&mut self) {
        self.at_line_start = true;
    }

    /// Asks for a line where no editor does.
    pub(super) fn prompt(&mut self) {
        self.end_line();
        self.screen.write(&self.screen.paint(Tone::Faint, "> "));
        self.at_line_start = false;
    }

    pub(super) fn end_line(&mut self) {
        let rest = self.markdown.as_mut().map(|markdown| markdown.finish(width()));
        self.write(rest.unwrap_or_default());
        if !self.at_line_start {
            self.write("\n".to_owned());
        }
    }

    fn write(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        self.at_line_start = text.ends_with('\n');
        match &self.printer {
            Some(printer) => printer.print(text),
            None => self.screen.write(&text),
        }
    }

    /// A line beside the answer.
    fn line(&self, tone: Tone, line: &str) {
        match &self.printer {
            Some(printer) => {
                printer.print(format!("{}\n", self.screen.paint(tone, &printable(line))));
            }
            None => complain(line),
        }
    }
}

/// How wide the terminal is now: it may have changed.
fn width() -> usize {
    screen::width().unwrap_or(USUAL_WIDTH)
}

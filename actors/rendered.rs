//! Cache of rendered forms: what engines write of something that stays the same, kept with it.

use std::sync::OnceLock;

use serde_json::value::RawValue;

/// JSON that was made of a value which never changes, one for each wire format.
///
/// The largest parts of a request are the same from call to call. Each is written once for a format and
/// then put into the bodies as it is. It is read without a lock: a long conversation has hundreds of them.
#[derive(Debug, Default)]
pub struct Rendered(OnceLock<Box<Form>>);

#[derive(Debug)]
struct Form {
    format: &'static str,
    json: Box<RawValue>,
    /// Those of other formats.
    others: Rendered,
}

impl Rendered {
    /// The form for a wire format, made when it is first asked for.
    pub fn get(
        &self,
        format: &'static str,
        make: impl Fn() -> serde_json::Result<Box<RawValue>>,
    ) -> serde_json::Result<&RawValue> {
        let form = match self.0.get() {
            Some(form) => form,
            None => {
                let json = make()?;
                let form = || Box::new(Form { format, json, others: Self::default() });
                self.0.get_or_init(form)
            }
        };
        if form.format == format { Ok(&form.json) } else { form.others.get(format, make) }
    }
}

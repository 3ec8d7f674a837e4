//! `browser_snapshot`, `browser_screenshot`: what a page shows, as words and as a picture.

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CLASS, GROUP, find, finish, marked};
use crate::{
    browser::{Browsers, session::looking::Picture},
    files::FileStore,
    tools::{
        about::About,
        contract::{NoArgs, Tool, ToolContext},
        error::ToolError,
        pictures,
        provenance::Scope,
    },
};

pub(super) struct Snapshot(pub(super) Browsers);
pub(super) struct Screenshot(pub(super) Browsers, pub(super) FileStore);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// All of the page instead of what is seen of it.
    #[serde(default)]
    full_page: bool,
}

impl Tool for Snapshot {
    const ABOUT: About = About::new("browser_snapshot", GROUP, CLASS, Effect::Pure).exclusive();
    const DESCRIPTION: &'static str = "Tells what the page shows, line by line, each with a `ref` to click it or type into \
        it. The names hold until the next snapshot or page.";
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, cx: &ToolContext) -> Result<String, ToolError> {
        let used = find(&self.0, cx).await?;
        let session = used.session()?;
        finish(used, cx, session.snapshot()).await.map(|told| marked(&told))
    }
}

impl Tool for Screenshot {
    const ABOUT: About = About::new("browser_screenshot", GROUP, CLASS, Effect::Pure).exclusive();
    const DESCRIPTION: &'static str = "Takes a picture of the page, keeps it in the workspace, and shows it to the person \
        you work for, and to you if you see pictures. To act on the page, take a snapshot.";
    type Args = Args;

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let used = find(&self.0, cx).await?;
        let session = used.session()?;
        let (picture, told) = finish(used, cx, session.picture(args.full_page)).await?;
        let Picture { bytes, extension, cut } = picture;
        let path = format!("screenshots/{}.{extension}", self.1.now().0);
        let of_page = cx.untrusted();
        let (place, content) = (path.clone(), bytes.clone());
        let write = move |cx: &ToolContext| Ok((String::new(), Some(cx.write(&place, &content)?)));
        of_page.change(Self::ABOUT.name, &path, Scope::Whole, write).await?;
        let mut lines = vec![format!("The picture is `{path}` in the workspace.")];
        lines.extend(pictures::show(&self.1, &of_page, &[(path, bytes)]).await);
        lines.extend(cut);
        Ok(marked(&format!("{told}\n{}", lines.join(" "))))
    }
}

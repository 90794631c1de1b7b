// Version history of the rules.

import { api } from "../api.js";
import { button } from "../actions.js";
import { authorText, changeText } from "../describe.js";
import { diffView } from "../diff-view.js";
import { bytes } from "../format.js";
import { h, replaceChildren } from "../dom.js";
import { t } from "../i18n/index.js";
import { notifyDone } from "../notices.js";
import { badge, errorMessage, section, since, table } from "../components.js";

export class Versions {
  #table = table([{ label: t("versions.version") }, { label: t("versions.time") }, { label: t("versions.author") }, { label: t("versions.comment") }, { label: t("versions.size"), number: true }, { label: "" }], t("versions.title"));
  #opened = h("div", { class: "opened" });
  #currentText;
  #onRestore;

  /** `currentText()` returns the active text; `onRestore()` is called after a restore. */
  constructor(currentText, onRestore) {
    this.#currentText = currentText;
    this.#onRestore = onRestore;
    this.element = section(t("versions.title"), { lead: t("versions.lead") }, this.#table.element, this.#opened);
  }

  async load() {
    try {
      const { versions } = await api.versions();
      this.#table.rows(
        versions.map((version) => [
          version.current ? badge(`${version.version} · ${t("versions.current")}`, "added") : version.version,
          since(version.at),
          authorText(version) || h("span", { class: "faint" }, "–"),
          changeText(version) || h("span", { class: "faint" }, "–"),
          bytes(version.bytes),
          button(t("versions.view"), () => this.#open(version)),
        ]),
        t("versions.none"),
      );
      replaceChildren(this.#opened);
    } catch (error) {
      replaceChildren(this.#opened, errorMessage(error));
    }
  }

  async #open({ version, current }) {
    const { text } = await api.version(version);
    const content = h("div", {});
    const showText = () => replaceChildren(content, h("pre", { class: "full-text", tabindex: "0" }, text));
    const showDiff = () => replaceChildren(content, diffView(this.#currentText(), text));
    if (current) showText();
    else showDiff();
    replaceChildren(
      this.#opened,
      h("h3", {}, t("versions.number", { n: version })),
      h(
        "div",
        { class: "buttons" },
        button(t("versions.diff"), showDiff),
        button(t("versions.text"), showText),
        current
          ? null
          : button(
              t("versions.restore"),
              async () => {
                const restored = await api.restore(version);
                notifyDone(t("rules.saved", { version: restored.version }));
                await this.#onRestore();
              },
              { write: true, kind: "primary", title: t("versions.restore.help") },
            ),
        button(t("close"), () => replaceChildren(this.#opened)),
      ),
      content,
    );
    this.#opened.scrollIntoView({ block: "nearest" });
  }
}

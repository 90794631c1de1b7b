// The history of the rule file.

import { api } from "../api.js";
import { button } from "../actions.js";
import { difference } from "../difference.js";
import { bytes } from "../format.js";
import { h, put } from "../dom.js";
import { t } from "../i18n/index.js";
import { done } from "../notices.js";
import { badge, section, since, table, trouble } from "../pieces.js";

export class Versions {
  #table = table([{ label: t("versions.version") }, { label: t("versions.when") }, { label: t("versions.who") }, { label: t("versions.comment") }, { label: t("versions.size"), number: true }, { label: "" }], t("versions.title"));
  #opened = h("div", { class: "opened" });
  #present;
  #changed;

  /** `present()`: the text in force; `changed()`: called when another was brought back. */
  constructor(present, changed) {
    this.#present = present;
    this.#changed = changed;
    this.element = section(t("versions.title"), { lead: t("versions.lead") }, this.#table.element, this.#opened);
  }

  async read() {
    try {
      const { versions } = await api.versions();
      this.#table.rows(
        versions.map((version) => [
          version.current ? badge(`${version.version} · ${t("versions.current")}`, "added") : version.version,
          since(version.at),
          version.author ?? "–",
          version.comment || h("span", { class: "faint" }, "–"),
          bytes(version.bytes),
          button(t("versions.view"), () => this.#open(version)),
        ]),
        t("versions.none"),
      );
      put(this.#opened);
    } catch (error) {
      put(this.#opened, trouble(error));
    }
  }

  async #open({ version, current }) {
    const { text } = await api.version(version);
    const place = h("div", {});
    const whole = () => put(place, h("pre", { class: "whole", tabindex: "0" }, text));
    const against = () => put(place, difference(this.#present(), text));
    if (current) whole();
    else against();
    put(
      this.#opened,
      h("h3", {}, t("versions.number", { n: version })),
      h(
        "div",
        { class: "buttons" },
        button(t("versions.diff"), against),
        button(t("versions.text"), whole),
        current
          ? null
          : button(
              t("versions.restore"),
              async () => {
                const told = await api.restore(version);
                done(t("file.saved", { version: told.version }));
                await this.#changed();
              },
              { write: true, kind: "primary", title: t("versions.restore.help") },
            ),
        button(t("close"), () => put(this.#opened)),
      ),
      place,
    );
    this.#opened.scrollIntoView({ block: "nearest" });
  }
}

// The rule file: it is checked while it is typed, saved with a word about why, and every earlier version can be
// looked at and brought back.

import { api, Problem } from "../api.js";
import { button, field, form, input } from "../actions.js";
import { difference } from "../difference.js";
import { Editor, faultList } from "../editor.js";
import { h, put, say, set } from "../dom.js";
import { t } from "../i18n/index.js";
import { done } from "../notices.js";
import { section, trouble } from "../pieces.js";
import { Lifetime, watch } from "../watch.js";
import { Versions } from "./versions.js";

const PAUSE = 300; // after the last key before it is checked

// What somebody was writing when they went to look at something else.
let draft = null;

export function show() {
  const life = new Lifetime();
  const file = new File(life);
  return {
    title: t("nav.file"),
    element: h("div", { class: "view file" }, h("h1", {}, t("nav.file")), file.element, file.versions.element),
    leave: () => life.end(),
  };
}

class File {
  #source = null;
  #life;
  #editor;
  #timer = 0;
  #checking = null;
  #state = h("p", { class: "check", role: "status" });
  #faults = h("div", {});
  #about = h("p", { class: "lead" });
  #conflict = h("div", {});
  #preview = h("div", {});
  #comment = input({ name: "comment", placeholder: t("file.comment.example"), maxlength: 200 });
  #save;

  constructor(life) {
    this.#life = life;
    this.#editor = new Editor({ label: t("nav.file"), onInput: () => this.#typed(), onSave: () => this.#save.run() });
    this.#save = button(t("file.save"), () => this.#store(), {
      kind: "primary",
      write: true,
      submit: true,
      why: () => (this.#source?.editable === false ? (this.#source.why_not ?? t("file.not_editable")) : null),
    });
    const reload = button(
      t("file.reload"),
      async () => {
        const told = await api.reload();
        done(t("file.reloaded", { version: told.version }));
        await this.#changed();
      },
      { write: true, title: t("file.reload.help") },
    );
    const discard = button(t("file.discard"), () => this.#show(this.#source), { title: t("file.discard.help") });
    const compare = button(t("file.compare"), () => this.#compare());
    this.element = section(
      t("file.title"),
      { lead: this.#about, side: h("div", { class: "buttons" }, reload) },
      this.#conflict,
      this.#editor.element,
      this.#state,
      this.#faults,
      this.#preview,
      form(this.#save, { class: "line saving", name: "save" }, field(t("file.comment"), this.#comment), h("div", { class: "buttons" }, this.#save, compare, discard)),
    );
    this.versions = new Versions(() => this.#source?.text ?? "", () => this.#changed());
    life.on("status", () => this.#moved());
    const leaving = (event) => {
      if (this.#dirty) event.preventDefault();
    };
    window.addEventListener("beforeunload", leaving);
    life.then(() => {
      window.removeEventListener("beforeunload", leaving);
      clearTimeout(this.#timer);
      this.#checking?.abort();
      draft = this.#dirty ? { text: this.#editor.text, source: this.#source } : null;
    });
    this.#begin();
  }

  get #dirty() {
    return this.#source !== null && this.#editor.text !== this.#source.text;
  }

  async #begin() {
    try {
      const source = await api.source();
      if (this.#life.over) return;
      if (draft !== null) {
        // The draft goes on from where it began; if the file has changed since, saving will say so.
        this.#source = draft.source;
        this.#editor.text = draft.text;
        this.#tellAbout();
        this.#typed();
        this.#moved();
      } else {
        this.#show(source);
      }
      this.versions.read();
    } catch (error) {
      put(this.#state, trouble(error));
    }
  }

  #show(source) {
    if (source === null) return;
    this.#source = source;
    this.#editor.text = source.text;
    this.#editor.readOnly = source.editable === false;
    this.#save.title = "";
    put(this.#conflict);
    put(this.#preview);
    this.#tellAbout();
    this.#typed();
  }

  #tellAbout() {
    const { origin, path, version, editable, why_not: whyNot } = this.#source;
    const where = path === null ? t(`origin.${origin}`) : path;
    say(this.#about, [t("file.about", { where, version }), editable === false ? (whyNot ?? t("file.not_editable")) : ""].join(t("gap")).trim());
    set(this.#save, "aria-disabled", watch.locked !== null || editable === false ? "true" : null);
    set(this.#save, "title", watch.locked !== null ? t(watch.locked) : editable === false ? (whyNot ?? t("file.not_editable")) : null);
  }

  /** Asks for the text anew after it was exchanged from here. */
  async #changed() {
    this.#show(await api.source());
    await Promise.all([this.versions.read(), watch.askStatus(), watch.askRules()]);
  }

  /** Somebody else may have exchanged the file. */
  async #moved() {
    const version = watch.status?.rules.version;
    if (this.#source === null || version === undefined || version === this.#source.version) return;
    const source = await api.source().catch(() => null);
    if (this.#life.over || source === null || source.version === this.#source.version) return;
    if (this.#dirty && this.#editor.text !== source.text) this.#showConflict(source);
    else this.#show(source);
    this.versions.read();
  }

  #typed() {
    clearTimeout(this.#timer);
    say(this.#state, this.#dirty ? t("file.checking") : t("file.unchanged"));
    set(this.#state, "data-state", "busy");
    put(this.#preview);
    this.#timer = setTimeout(() => this.#check(), PAUSE);
  }

  async #check() {
    this.#checking?.abort();
    const checking = new AbortController();
    this.#checking = checking;
    try {
      const { faults, warnings } = await api.check(this.#editor.text, checking.signal);
      if (this.#checking === checking && !this.#life.over) this.#judge(faults, warnings);
    } catch (error) {
      if (error.name !== "AbortError") put(this.#state, trouble(error));
    }
  }

  #judge(faults, warnings) {
    this.#editor.mark([...faults.map(({ line }) => ({ line, kind: "fault" })), ...warnings.map(({ line }) => ({ line, kind: "warning" }))]);
    put(this.#faults, faults.length + warnings.length === 0 ? null : faultList(faults, warnings, (line, column) => this.#editor.go(line, column)));
    const text = faults.length > 0 ? t("file.faulty", { n: faults.length }) : this.#dirty ? t("file.sound") : t("file.unchanged");
    say(this.#state, warnings.length > 0 ? `${text}${t("gap")}${t("file.warned", { n: warnings.length })}` : text);
    set(this.#state, "data-state", faults.length > 0 ? "fault" : warnings.length > 0 ? "warning" : "sound");
  }

  #compare() {
    if (this.#source !== null) put(this.#preview, difference(this.#source.text, this.#editor.text));
  }

  async #store() {
    if (this.#source === null) return;
    try {
      const told = await api.save(this.#editor.text, this.#source.version, this.#comment.value.trim());
      this.#comment.value = "";
      done(told.pending_restart?.length > 0 ? t("file.saved.restart", { version: told.version, parts: told.pending_restart.join(", ") }) : t("file.saved", { version: told.version }));
      await this.#changed();
    } catch (error) {
      if (error instanceof Problem && error.status === 422 && error.faults !== null) {
        this.#judge(error.faults, []);
        set(this.#state, "data-state", "fault");
        say(this.#state, t("file.refused"));
        const [first] = error.faults;
        if (first !== undefined) this.#editor.go(first.line, first.column);
      } else if (error instanceof Problem && error.status === 409) {
        this.#showConflict(await api.source());
      } else {
        throw error;
      }
    }
  }

  /** Somebody else saved meanwhile: theirs, or ours upon theirs. */
  #showConflict(theirs) {
    put(
      this.#conflict,
      h(
        "div",
        { class: "conflict", role: "alert" },
        h("strong", {}, t("conflict.title", { version: theirs.version })),
        h("p", {}, t("conflict.lead")),
        difference(theirs.text, this.#editor.text),
        h(
          "div",
          { class: "buttons" },
          button(t("conflict.theirs"), () => this.#show(theirs)),
          button(t("conflict.mine"), () => {
            const text = this.#editor.text;
            this.#show(theirs);
            this.#editor.text = text;
            this.#typed();
            this.#compare();
          }),
        ),
      ),
    );
    this.#conflict.scrollIntoView({ block: "nearest" });
  }
}

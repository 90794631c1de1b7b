// Rule editor: validates while typing, applies changes with a comment, and restores earlier versions.

import { api, Problem } from "../api.js";
import { button, field, form, input } from "../actions.js";
import { readOnlyText } from "../describe.js";
import { diffView } from "../diff-view.js";
import { diagnosticList, Editor } from "../editor.js";
import { h, replaceChildren, set, setText } from "../dom.js";
import { t } from "../i18n/index.js";
import { notifyDone } from "../notices.js";
import { errorMessage, section } from "../components.js";
import { Lifetime, state } from "../state.js";
import { Versions } from "./versions.js";

/** Delay between the last key and validation. */
const CHECK_DELAY_MS = 300;

// Unsaved text, kept while another view is open.
let draft = null;

export function show() {
  const life = new Lifetime();
  const rules = new RuleEditor(life);
  return {
    title: t("nav.rules"),
    element: h("div", { class: "view rules" }, h("h1", {}, t("nav.rules")), rules.element, rules.versions.element),
    leave: () => life.end(),
  };
}

class RuleEditor {
  #source = null;
  #life;
  #editor;
  #timer = 0;
  #checking = null;
  #state = h("p", { class: "check", role: "status" });
  #diagnostics = h("div", {});
  #origin = h("p", { class: "lead" });
  #conflict = h("div", {});
  #preview = h("div", {});
  #comment = input({ name: "comment", placeholder: t("rules.comment.example"), maxlength: 200 });
  #save;

  constructor(life) {
    this.#life = life;
    this.#editor = new Editor({ label: t("nav.rules"), onInput: () => this.#onInput(), onSave: () => this.#save.run() });
    this.#save = button(t("rules.save"), () => this.#store(), {
      kind: "primary",
      write: true,
      submit: true,
      disabled: () => (this.#source?.editable === false ? readOnlyText(this.#source) : null),
    });
    const reload = button(
      t("rules.reload"),
      async () => {
        const { version } = await api.reload();
        notifyDone(t("rules.reloaded", { version }));
        await this.#refresh();
      },
      { write: true, title: t("rules.reload.help") },
    );
    const discard = button(t("rules.discard"), () => this.#show(this.#source), { title: t("rules.discard.help") });
    const compare = button(t("rules.compare"), () => this.#compare());
    this.element = section(
      t("rules.title"),
      { lead: this.#origin, side: h("div", { class: "buttons" }, reload) },
      this.#conflict,
      this.#editor.element,
      this.#state,
      this.#diagnostics,
      this.#preview,
      form(this.#save, { class: "line saving", name: "save" }, field(t("rules.comment"), this.#comment), h("div", { class: "buttons" }, this.#save, compare, discard)),
    );
    this.versions = new Versions(() => this.#source?.text ?? "", () => this.#refresh());
    life.on("status", () => this.#onStatus());
    const confirmLeave = (event) => {
      if (this.#isDirty) event.preventDefault();
    };
    window.addEventListener("beforeunload", confirmLeave);
    life.onEnd(() => {
      window.removeEventListener("beforeunload", confirmLeave);
      clearTimeout(this.#timer);
      this.#checking?.abort();
      draft = this.#isDirty ? { text: this.#editor.text, source: this.#source } : null;
    });
    this.#load();
  }

  get #isDirty() {
    return this.#source !== null && this.#editor.text !== this.#source.text;
  }

  async #load() {
    try {
      const source = await api.source();
      if (this.#life.ended) return;
      if (draft !== null) {
        // The draft stays based on its original version; saving reports a conflict if the file has changed since.
        this.#source = draft.source;
        this.#editor.text = draft.text;
        this.#showOrigin();
        this.#onInput();
        this.#onStatus();
      } else {
        this.#show(source);
      }
      this.versions.load();
    } catch (error) {
      replaceChildren(this.#state, errorMessage(error));
    }
  }

  #show(source) {
    if (source === null) return;
    this.#source = source;
    this.#editor.text = source.text;
    this.#editor.readOnly = source.editable === false;
    this.#save.title = "";
    replaceChildren(this.#conflict);
    replaceChildren(this.#preview);
    this.#showOrigin();
    this.#onInput();
  }

  #showOrigin() {
    const { origin, path, version, editable } = this.#source;
    const where = path === null ? t(`origin.${origin}`) : path;
    const readOnly = editable === false ? readOnlyText(this.#source) : null;
    setText(this.#origin, [t("rules.origin", { where, version }), readOnly ?? ""].join(t("gap")).trim());
    const reason = state.readOnlyReason !== null ? t(state.readOnlyReason) : readOnly;
    set(this.#save, "aria-disabled", reason === null ? null : "true");
    set(this.#save, "title", reason);
  }

  /** Loads the text again after a change from this page. */
  async #refresh() {
    this.#show(await api.source());
    await Promise.all([this.versions.load(), state.loadStatus(), state.loadRules()]);
  }

  /** Loads the text again if another user has changed it. */
  async #onStatus() {
    const version = state.status?.rules.version;
    if (this.#source === null || version === undefined || version === this.#source.version) return;
    const source = await api.source().catch(() => null);
    if (this.#life.ended || source === null || source.version === this.#source.version) return;
    if (this.#isDirty && this.#editor.text !== source.text) this.#showConflict(source);
    else this.#show(source);
    this.versions.load();
  }

  #onInput() {
    clearTimeout(this.#timer);
    setText(this.#state, this.#isDirty ? t("rules.checking") : t("rules.unchanged"));
    set(this.#state, "data-state", "busy");
    replaceChildren(this.#preview);
    this.#timer = setTimeout(() => this.#check(), CHECK_DELAY_MS);
  }

  async #check() {
    this.#checking?.abort();
    const checking = new AbortController();
    this.#checking = checking;
    try {
      const { errors, warnings } = await api.check(this.#editor.text, checking.signal);
      if (this.#checking === checking && !this.#life.ended) this.#showDiagnostics(errors, warnings);
    } catch (error) {
      if (error.name !== "AbortError") replaceChildren(this.#state, errorMessage(error));
    }
  }

  #showDiagnostics(errors, warnings) {
    this.#editor.mark([...errors.map(({ line }) => ({ line, kind: "error" })), ...warnings.map(({ line }) => ({ line, kind: "warning" }))]);
    replaceChildren(this.#diagnostics, errors.length + warnings.length === 0 ? null : diagnosticList(errors, warnings, (line, column) => this.#editor.moveTo(line, column)));
    const text = errors.length > 0 ? t("rules.invalid", { n: errors.length }) : this.#isDirty ? t("rules.valid") : t("rules.unchanged");
    setText(this.#state, warnings.length > 0 ? `${text}${t("gap")}${t("rules.warnings", { n: warnings.length })}` : text);
    set(this.#state, "data-state", errors.length > 0 ? "error" : warnings.length > 0 ? "warning" : "valid");
  }

  #compare() {
    if (this.#source !== null) replaceChildren(this.#preview, diffView(this.#source.text, this.#editor.text));
  }

  async #store() {
    if (this.#source === null) return;
    try {
      const { version, pending_restart: pending } = await api.save(this.#editor.text, this.#source.version, this.#comment.value.trim());
      this.#comment.value = "";
      notifyDone(pending?.length > 0 ? t("rules.saved.restart", { version, sections: pending.join(", ") }) : t("rules.saved", { version }));
      await this.#refresh();
    } catch (error) {
      if (error instanceof Problem && error.status === 422 && error.errors !== null) {
        this.#showDiagnostics(error.errors, []);
        set(this.#state, "data-state", "error");
        setText(this.#state, t("rules.rejected"));
        const [first] = error.errors;
        if (first !== undefined) this.#editor.moveTo(first.line, first.column);
      } else if (error instanceof Problem && error.status === 409) {
        this.#showConflict(await api.source());
      } else {
        throw error;
      }
    }
  }

  /** Another user has saved in the meantime: offers to load that version, or to apply this text on top of it. */
  #showConflict(current) {
    replaceChildren(
      this.#conflict,
      h(
        "div",
        { class: "conflict", role: "alert" },
        h("strong", {}, t("conflict.title", { version: current.version })),
        h("p", {}, t("conflict.lead")),
        diffView(current.text, this.#editor.text),
        h(
          "div",
          { class: "buttons" },
          button(t("conflict.load"), () => this.#show(current)),
          button(t("conflict.keep"), () => {
            const text = this.#editor.text;
            this.#show(current);
            this.#editor.text = text;
            this.#onInput();
            this.#compare();
          }),
        ),
      ),
    );
    this.#conflict.scrollIntoView({ block: "nearest" });
  }
}

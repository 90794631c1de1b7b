// Asks for the token when the API wants one. It is kept for this tab only.

import { api } from "./api.js";
import { button, field, form, input } from "./actions.js";
import { h, put } from "./dom.js";
import { t } from "./i18n/index.js";
import { token } from "./settings.js";

const dialog = h("dialog", { class: "login", "aria-labelledby": "login-title" });
// Without a token there is nothing to see: it cannot be closed by a key.
dialog.addEventListener("cancel", (event) => event.preventDefault());

/** Leaves: the token is forgotten, and the page with all that it knew. */
export function forgetToken() {
  token.set(null);
  location.reload();
}

export const isAsking = () => dialog.open;

/** Asks, unless it is asking already; `then` is called with a token that holds. */
export function askForToken(then) {
  if (dialog.open) return;
  const wrong = token.get() !== null;
  token.set(null);
  const secret = input({ type: "password", name: "token", required: true, autofocus: true });
  const said = h("p", { class: "trouble", role: "alert", hidden: !wrong }, t("login.wrong"));
  const enter = button(
    t("login.enter"),
    async () => {
      const given = secret.value.trim();
      if (given === "") {
        secret.focus();
        return;
      }
      said.hidden = true;
      token.set(given);
      try {
        await api.status();
      } catch (error) {
        token.set(null);
        said.hidden = false;
        said.textContent = error.status === 401 ? t("login.wrong") : error.message;
        secret.select();
        return;
      }
      dialog.close();
      then();
    },
    { kind: "primary", submit: true },
  );
  put(
    dialog,
    form(enter, { name: "login" }, h("h2", { id: "login-title" }, t("login.title")), h("p", { class: "lead" }, t("login.lead")), field(t("login.token"), secret, t("login.kept")), said, enter),
  );
  if (!dialog.isConnected) document.body.append(dialog);
  dialog.showModal();
  secret.focus();
}

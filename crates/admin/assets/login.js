// Login dialog for the token, which is stored for this tab only.

import { api } from "./api.js";
import { button, field, form, input } from "./actions.js";
import { h, replaceChildren } from "./dom.js";
import { t } from "./i18n/index.js";
import { errorText } from "./problems.js";
import { token } from "./settings.js";

const dialog = h("dialog", { class: "login", "aria-labelledby": "login-title" });
// Without a token there is nothing to show, so the dialog cannot be closed.
dialog.addEventListener("cancel", (event) => event.preventDefault());

/** Logs out: removes the token and reloads the page. */
export function logout() {
  token.set(null);
  location.reload();
}

export const isLoginOpen = () => dialog.open;

/** Opens the dialog unless it is open; calls `onLogin` once a token is accepted. */
export function openLogin(onLogin) {
  if (dialog.open) return;
  const rejected = token.get() !== null;
  token.set(null);
  const secret = input({ type: "password", name: "token", required: true, autofocus: true });
  const message = h("p", { class: "error-text", role: "alert", hidden: !rejected }, t("login.wrong"));
  const enter = button(
    t("login.enter"),
    async () => {
      const value = secret.value.trim();
      if (value === "") {
        secret.focus();
        return;
      }
      message.hidden = true;
      token.set(value);
      try {
        await api.status();
      } catch (error) {
        token.set(null);
        message.hidden = false;
        message.textContent = error.status === 401 ? t("login.wrong") : errorText(error);
        secret.select();
        return;
      }
      dialog.close();
      onLogin();
    },
    { kind: "primary", submit: true },
  );
  replaceChildren(
    dialog,
    form(enter, { name: "login" }, h("h2", { id: "login-title" }, t("login.title")), h("p", { class: "lead" }, t("login.lead")), field(t("login.token"), secret, t("login.stored")), message, enter),
  );
  if (!dialog.isConnected) document.body.append(dialog);
  dialog.showModal();
  secret.focus();
}
